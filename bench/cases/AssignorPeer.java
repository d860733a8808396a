import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Kafka's own assignors on the groups that Rollcall's are given.
 *
 * <p>Reads lines "WHAT ASSIGNOR FILE CALLS WARM_UP_MS" and answers each with one line: how many ns
 * each call took. WHAT is "assign", the assignor alone, or "build", the TargetAssignmentBuilder.
 * FILE holds arrays (length, then elements, all big-endian int32), in the order that the class of
 * the group reads them; the assignment is written to FILE.out in the same form. Members come in the
 * order of their ids, so that ties fall as they do in Rollcall.
 */
public final class AssignorPeer {
    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            IntBuffer numbers = ByteBuffer.wrap(Files.readAllBytes(Path.of(words[2]))).asIntBuffer();
            run(group(words[1], numbers), words);
        }
    }

    private static PeerGroup group(String assignor, IntBuffer numbers) {
        switch (assignor) {
            case "simple":
                return new SharePeerGroup(numbers);
            case "sticky":
                return new StreamsPeerGroup(numbers);
            default:
                return new ConsumerPeerGroup(assignor, numbers);
        }
    }

    private static void run(PeerGroup group, String[] words) throws IOException {
        boolean whole = words[0].equals("build");
        int calls = Integer.parseInt(words[3]);
        long warmUntil = System.nanoTime() + Long.parseLong(words[4]) * 1_000_000L;
        while (System.nanoTime() < warmUntil) {
            once(group, whole);
        }
        StringBuilder answer = new StringBuilder();
        for (int call = 0; call < calls; call++) {
            long start = System.nanoTime();
            once(group, whole);
            answer.append(System.nanoTime() - start).append(' ');
        }
        write(group.assignment(), Path.of(words[2] + ".out"));
        System.out.println(answer.toString().trim());
    }

    private static Object once(PeerGroup group, boolean whole) {
        return whole ? group.build() : group.assign();
    }

    /** Reads one array. */
    static int[] array(IntBuffer numbers) {
        int[] array = new int[numbers.get()];
        numbers.get(array);
        return array;
    }

    private static void write(int[][] arrays, Path file) throws IOException {
        int size = 0;
        for (int[] array : arrays) {
            size += 1 + array.length;
        }
        ByteBuffer bytes = ByteBuffer.allocate(4 * size);
        IntBuffer numbers = bytes.asIntBuffer();
        for (int[] array : arrays) {
            numbers.put(array.length).put(array);
        }
        Files.write(file, bytes.array());
    }
}
