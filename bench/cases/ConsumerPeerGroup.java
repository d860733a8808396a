import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;

/**
 * A consumer group. Arrays: those of a group of topics, previous_owner, instance_rank.
 *
 * <p>The assignment is one array: the owner of each partition.
 */
final class ConsumerPeerGroup extends TopicPeerGroup {
    private final ConsumerGroupPartitionAssignor assignor;
    private final Map<String, ConsumerGroupMember> members = new LinkedHashMap<>();
    private final Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
    private final int partitionCount;
    private final GroupSpecImpl spec;

    ConsumerPeerGroup(String assignor, IntBuffer numbers) {
        super(numbers);
        this.assignor = assignor.equals("range") ? new RangeAssignor() : new UniformAssignor();
        int[] previousOwner = AssignorPeer.array(numbers);
        int[] instanceRank = AssignorPeer.array(numbers);
        partitionCount = previousOwner.length;
        for (int member = 0; member < memberIds.length; member++) {
            String id = memberIds[member];
            ConsumerGroupMember.Builder builder = new ConsumerGroupMember.Builder(id)
                .setSubscribedTopicNames(List.copyOf(subscriptions.get(id)));
            if (instanceRank.length > 0 && instanceRank[member] >= 0) {
                builder.setInstanceId(String.format("instance-%06d", instanceRank[member]));
            }
            members.put(id, builder.build());
        }
        makeAssignment(previousOwner);
        spec = spec();
    }

    @Override
    public GroupAssignment assign() {
        return assignor.assign(spec, topics);
    }

    @Override
    public Object build() {
        return new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder("group", 2, assignor)
            .withTime(Time.SYSTEM)
            .withMembers(members)
            .withSubscriptionType(subscriptionType)
            .withTargetAssignment(targetAssignment)
            .withInvertedTargetAssignment(inverted)
            .withMetadataImage(image)
            .build();
    }

    @Override
    public int[][] assignment() {
        int[] owner = new int[partitionCount];
        Arrays.fill(owner, -1);
        assign().members().forEach((id, given) -> given.partitions().forEach((topicId, partitions) -> {
            int from = partitionStarts[topicIndexes.get(topicId)];
            for (int partition : partitions) {
                if (owner[from + partition] != -1) {
                    throw new IllegalStateException("A partition has two owners.");
                }
                owner[from + partition] = memberIndexes.get(id);
            }
        }));
        return new int[][] {owner};
    }

    private GroupSpecImpl spec() {
        Map<String, MemberSubscriptionAndAssignmentImpl> rows = new LinkedHashMap<>();
        TopicIds.TopicResolver resolver = new TopicIds.CachedTopicResolver(image);
        members.forEach((id, member) -> rows.put(id, new MemberSubscriptionAndAssignmentImpl(
            Optional.ofNullable(member.rackId()),
            Optional.ofNullable(member.instanceId()),
            new TopicIds(member.subscribedTopicNames(), resolver),
            targetAssignment.getOrDefault(id, Assignment.EMPTY))));
        return new GroupSpecImpl(Collections.unmodifiableMap(rows), subscriptionType, inverted);
    }

    private void makeAssignment(int[] previousOwner) {
        Map<String, Map<Uuid, Set<Integer>>> owned = new HashMap<>();
        for (int topic = 0; topic < topicIds.length; topic++) {
            Uuid topicId = topicIds[topic];
            int from = partitionStarts[topic];
            for (int at = from; at < partitionStarts[topic + 1]; at++) {
                if (previousOwner[at] >= 0) {
                    String id = memberIds[previousOwner[at]];
                    put(owned, id, topicId, at - from);
                    inverted.computeIfAbsent(topicId, key -> new HashMap<>()).put(at - from, id);
                }
            }
        }
        owned.forEach((id, partitions) ->
            targetAssignment.put(id, new Assignment(Collections.unmodifiableMap(partitions))));
    }
}
