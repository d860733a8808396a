/** A group of one type, with the assignor of Kafka that it is given to. */
interface PeerGroup {
    /** Calls the assignor. */
    Object assign();

    /** Calls the TargetAssignmentBuilder. */
    Object build();

    /** Calls the assignor once, and returns its assignment as arrays. */
    int[][] assignment();
}
