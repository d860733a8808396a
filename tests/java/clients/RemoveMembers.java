import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;

/**
 * Removes static members from a group by one batch LeaveGroup with a reason, and prints what became of each.
 *
 * Arguments: BOOTSTRAP GROUP REASON [INSTANCE_ID ...]; with no instance id, every member is removed.
 */
public final class RemoveMembers {
    private RemoveMembers() { }

    public static void main(String[] args) throws Exception {
        List<MemberToRemove> members = Stream.of(args).skip(3).map(MemberToRemove::new).toList();
        var options = members.isEmpty()
            ? new RemoveMembersFromConsumerGroupOptions()
            : new RemoveMembersFromConsumerGroupOptions(members);
        options.reason(args[2]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            var result = admin.removeMembersFromConsumerGroup(args[1], options);
            if (members.isEmpty()) {
                result.all().get();
                System.out.println("all removed");
            }
            for (MemberToRemove member : members) {
                String outcome = "removed";
                try {
                    result.memberResult(member).get();
                } catch (ExecutionException e) {
                    outcome = e.getCause().getClass().getSimpleName();
                }
                System.out.println(member.groupInstanceId() + " " + outcome);
            }
        }
    }
}
