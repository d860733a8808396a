import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupMember;

/**
 * A share group. Arrays: those of a group of topics, previous_starts, previous_partitions.
 *
 * <p>The assignment is two arrays: member_starts and partitions.
 */
final class SharePeerGroup extends TopicPeerGroup {
    private final SimpleAssignor assignor = new SimpleAssignor();
    private final Map<String, ShareGroupMember> members = new LinkedHashMap<>();
    private final Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
    private final Map<Uuid, Set<Integer>> assignable = new HashMap<>();
    private final GroupSpecImpl spec;

    SharePeerGroup(IntBuffer numbers) {
        super(numbers);
        makeAssignment(AssignorPeer.array(numbers), AssignorPeer.array(numbers));
        for (String id : memberIds) {
            members.put(id, new ShareGroupMember.Builder(id)
                .setSubscribedTopicNames(List.copyOf(subscriptions.get(id))).build());
        }
        for (int topic = 0; topic < topicIds.length; topic++) {
            Set<Integer> all = new HashSet<>();
            for (int at = partitionStarts[topic]; at < partitionStarts[topic + 1]; at++) {
                all.add(at - partitionStarts[topic]);
            }
            assignable.put(topicIds[topic], all);
        }
        spec = spec();
    }

    @Override
    public GroupAssignment assign() {
        return assignor.assign(spec, topics);
    }

    @Override
    public Object build() {
        return new TargetAssignmentBuilder.ShareTargetAssignmentBuilder("group", 2, assignor)
            .withTime(Time.SYSTEM)
            .withMembers(members)
            .withSubscriptionType(subscriptionType)
            .withTargetAssignment(targetAssignment)
            .withTopicAssignablePartitionsMap(assignable)
            .withInvertedTargetAssignment(inverted)
            .withMetadataImage(image)
            .build();
    }

    @Override
    public int[][] assignment() {
        GroupAssignment given = assign();
        int[] starts = new int[memberIds.length + 1];
        int[][] rows = new int[memberIds.length][];
        int count = 0;
        for (int member = 0; member < rows.length; member++) {
            rows[member] = given.members().get(memberIds[member]).partitions().entrySet().stream()
                .flatMapToInt(entry -> {
                    int from = partitionStarts[topicIndexes.get(entry.getKey())];
                    return entry.getValue().stream().mapToInt(partition -> from + partition);
                }).sorted().toArray();
            count += rows[member].length;
            starts[member + 1] = count;
        }
        int[] partitions = Arrays.stream(rows).flatMapToInt(Arrays::stream).toArray();
        return new int[][] {starts, partitions};
    }

    private GroupSpecImpl spec() {
        Map<String, MemberSubscriptionAndAssignmentImpl> rows = new LinkedHashMap<>();
        TopicIds.TopicResolver resolver = new TopicIds.CachedTopicResolver(image);
        members.forEach((id, member) -> rows.put(id, new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(),
            Optional.empty(),
            new TopicIds(member.subscribedTopicNames(), resolver),
            targetAssignment.getOrDefault(id, Assignment.EMPTY))));
        return new GroupSpecImpl(
            Collections.unmodifiableMap(rows), subscriptionType, inverted, Optional.of(assignable));
    }

    private void makeAssignment(int[] starts, int[] partitions) {
        Map<String, Map<Uuid, Set<Integer>>> owned = new HashMap<>();
        for (int member = 0; member + 1 < starts.length; member++) {
            for (int at = starts[member]; at < starts[member + 1]; at++) {
                int topic = Arrays.binarySearch(partitionStarts, partitions[at]);
                topic = topic >= 0 ? lastAt(topic) : -topic - 2;
                int partition = partitions[at] - partitionStarts[topic];
                put(owned, memberIds[member], topicIds[topic], partition);
                inverted.computeIfAbsent(topicIds[topic], key -> new HashMap<>())
                    .put(partition, memberIds[member]);
            }
        }
        owned.forEach((id, each) ->
            targetAssignment.put(id, new Assignment(Collections.unmodifiableMap(each))));
    }

    /** Skips the topics without partitions that begin at the same place. */
    private int lastAt(int topic) {
        int last = topic;
        while (partitionStarts[last + 1] == partitionStarts[topic]) {
            last++;
        }
        return last;
    }
}
