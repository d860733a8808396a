import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

/**
 * A consumer group or share group: members that subscribe to topics.
 *
 * <p>Its arrays begin with partition_starts, class_starts, class_topics and member_class.
 */
abstract class TopicPeerGroup implements PeerGroup {
    final int[] partitionStarts;
    final Uuid[] topicIds;
    final Map<Uuid, Integer> topicIndexes = new HashMap<>();
    final String[] memberIds;
    final Map<String, Integer> memberIndexes = new HashMap<>();
    final Map<String, Set<String>> subscriptions = new LinkedHashMap<>();
    final Map<String, Assignment> targetAssignment = new HashMap<>();
    final SubscriptionType subscriptionType;
    final KRaftCoordinatorMetadataImage image;
    final SubscribedTopicDescriberImpl topics;

    TopicPeerGroup(IntBuffer numbers) {
        partitionStarts = AssignorPeer.array(numbers);
        int[] classStarts = AssignorPeer.array(numbers);
        int[] classTopics = AssignorPeer.array(numbers);
        int[] memberClass = AssignorPeer.array(numbers);
        topicIds = topicIds(partitionStarts.length - 1);
        image = image();
        topics = new SubscribedTopicDescriberImpl(image);
        memberIds = new String[memberClass.length];
        for (int member = 0; member < memberClass.length; member++) {
            int until = classStarts[memberClass[member] + 1];
            Set<String> names = new HashSet<>();
            for (int at = classStarts[memberClass[member]]; at < until; at++) {
                names.add("topic-" + classTopics[at]);
            }
            memberIds[member] = String.format("member-%06d", member);
            memberIndexes.put(memberIds[member], member);
            subscriptions.put(memberIds[member], names);
        }
        subscriptionType = new HashSet<>(subscriptions.values()).size() == 1
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
    }

    /** Puts a partition into a member's part of the target assignment. */
    static void put(
            Map<String, Map<Uuid, Set<Integer>>> owned, String memberId, Uuid topicId, int partition) {
        owned.computeIfAbsent(memberId, key -> new HashMap<>())
            .computeIfAbsent(topicId, key -> new HashSet<>()).add(partition);
    }

    private static Uuid[] topicIds(int count) {
        Random random = new Random(count);
        Uuid[] ids = new Uuid[count];
        for (int topic = 0; topic < count; topic++) {
            ids[topic] = new Uuid(random.nextLong() >>> 1, random.nextLong());
        }
        Arrays.sort(ids);
        return ids;
    }

    private KRaftCoordinatorMetadataImage image() {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int topic = 0; topic < topicIds.length; topic++) {
            Uuid id = topicIds[topic];
            topicIndexes.put(id, topic);
            delta.replay(new TopicRecord().setTopicId(id).setName("topic-" + topic));
            int size = partitionStarts[topic + 1] - partitionStarts[topic];
            for (int partition = 0; partition < size; partition++) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition)
                    .setReplicas(List.of(1)).setIsr(List.of(1)).setLeader(1));
            }
        }
        return new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
    }
}
