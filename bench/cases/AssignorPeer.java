import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

/**
 * Kafka's own assignors on the groups that Rollcall's are given.
 *
 * <p>Reads lines "WHAT ASSIGNOR FILE CALLS WARM_UP_MS" and answers each with one line: how many ns
 * each call took. WHAT is "assign", the assignor alone, or "build", the TargetAssignmentBuilder.
 * FILE holds arrays (length, then elements, all big-endian int32) in the order of the fields of
 * Group; the owners of the partitions are written to FILE.out. Members come in the order of their
 * ids, so that ties fall as they do in Rollcall.
 */
public final class AssignorPeer {
    private static final class Group {
        int[] partitionStarts;
        int[] classStarts;
        int[] classTopics;
        int[] memberClass;
        int[] previousOwner;
        int[] instanceRank;
        Uuid[] topicIds;
        final Map<Uuid, Integer> topicIndexes = new HashMap<>();
        final Map<String, Integer> memberIndexes = new HashMap<>();
        final Map<String, ConsumerGroupMember> members = new LinkedHashMap<>();
        final Map<String, Assignment> targetAssignment = new HashMap<>();
        final Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        KRaftCoordinatorMetadataImage image;
        SubscriptionType subscriptionType;
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            Group group = read(Path.of(words[2]));
            ConsumerGroupPartitionAssignor assignor =
                words[1].equals("range") ? new RangeAssignor() : new UniformAssignor();
            run(group, assignor, words);
        }
    }

    private static void run(Group group, ConsumerGroupPartitionAssignor assignor, String[] words)
            throws IOException {
        boolean whole = words[0].equals("build");
        int calls = Integer.parseInt(words[3]);
        long warmUntil = System.nanoTime() + Long.parseLong(words[4]) * 1_000_000L;
        GroupSpecImpl spec = spec(group);
        SubscribedTopicDescriberImpl topics = new SubscribedTopicDescriberImpl(group.image);
        while (System.nanoTime() < warmUntil) {
            once(group, assignor, spec, topics, whole);
        }
        StringBuilder answer = new StringBuilder();
        for (int call = 0; call < calls; call++) {
            long start = System.nanoTime();
            once(group, assignor, spec, topics, whole);
            answer.append(System.nanoTime() - start).append(' ');
        }
        write(group, assignor.assign(spec, topics).members(), Path.of(words[2] + ".out"));
        System.out.println(answer.toString().trim());
    }

    private static Object once(
            Group group,
            ConsumerGroupPartitionAssignor assignor,
            GroupSpecImpl spec,
            SubscribedTopicDescriberImpl topics,
            boolean whole) {
        if (!whole) {
            return assignor.assign(spec, topics);
        }
        return new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder("group", 2, assignor)
            .withTime(Time.SYSTEM)
            .withMembers(group.members)
            .withSubscriptionType(group.subscriptionType)
            .withTargetAssignment(group.targetAssignment)
            .withInvertedTargetAssignment(group.inverted)
            .withMetadataImage(group.image)
            .build();
    }

    private static GroupSpecImpl spec(Group group) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        TopicIds.TopicResolver resolver = new TopicIds.CachedTopicResolver(group.image);
        group.members.forEach((id, member) -> members.put(id, new MemberSubscriptionAndAssignmentImpl(
            Optional.ofNullable(member.rackId()),
            Optional.ofNullable(member.instanceId()),
            new TopicIds(member.subscribedTopicNames(), resolver),
            group.targetAssignment.getOrDefault(id, Assignment.EMPTY))));
        return new GroupSpecImpl(
            Collections.unmodifiableMap(members), group.subscriptionType, group.inverted);
    }

    private static Group read(Path file) throws IOException {
        IntBuffer numbers = ByteBuffer.wrap(Files.readAllBytes(file)).asIntBuffer();
        Group group = new Group();
        group.partitionStarts = array(numbers);
        group.classStarts = array(numbers);
        group.classTopics = array(numbers);
        group.memberClass = array(numbers);
        group.previousOwner = array(numbers);
        group.instanceRank = array(numbers);
        makeTopics(group);
        makeMembers(group);
        makeAssignment(group);
        return group;
    }

    private static int[] array(IntBuffer numbers) {
        int[] array = new int[numbers.get()];
        numbers.get(array);
        return array;
    }

    private static void makeTopics(Group group) {
        int count = group.partitionStarts.length - 1;
        Random random = new Random(count);
        group.topicIds = new Uuid[count];
        for (int topic = 0; topic < count; topic++) {
            group.topicIds[topic] = new Uuid(random.nextLong() >>> 1, random.nextLong());
        }
        Arrays.sort(group.topicIds);
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int topic = 0; topic < count; topic++) {
            Uuid id = group.topicIds[topic];
            group.topicIndexes.put(id, topic);
            delta.replay(new TopicRecord().setTopicId(id).setName("topic-" + topic));
            int size = group.partitionStarts[topic + 1] - group.partitionStarts[topic];
            for (int partition = 0; partition < size; partition++) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition)
                    .setReplicas(List.of(1)).setIsr(List.of(1)).setLeader(1));
            }
        }
        group.image = new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
    }

    private static void makeMembers(Group group) {
        Set<Set<String>> subscriptions = new HashSet<>();
        for (int member = 0; member < group.memberClass.length; member++) {
            int from = group.classStarts[group.memberClass[member]];
            int until = group.classStarts[group.memberClass[member] + 1];
            String[] names = new String[until - from];
            for (int at = from; at < until; at++) {
                names[at - from] = "topic-" + group.classTopics[at];
            }
            String id = String.format("member-%06d", member);
            ConsumerGroupMember.Builder builder = new ConsumerGroupMember.Builder(id)
                .setSubscribedTopicNames(List.of(names));
            if (group.instanceRank.length > 0 && group.instanceRank[member] >= 0) {
                builder.setInstanceId(String.format("instance-%06d", group.instanceRank[member]));
            }
            group.members.put(id, builder.build());
            group.memberIndexes.put(id, member);
            subscriptions.add(Set.of(names));
        }
        group.subscriptionType = subscriptions.size() == 1
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
    }

    private static void makeAssignment(Group group) {
        Map<String, Map<Uuid, Set<Integer>>> owned = new HashMap<>();
        String[] ids = group.members.keySet().toArray(new String[0]);
        for (int topic = 0; topic < group.topicIds.length; topic++) {
            Uuid topicId = group.topicIds[topic];
            int from = group.partitionStarts[topic];
            for (int at = from; at < group.partitionStarts[topic + 1]; at++) {
                if (group.previousOwner[at] >= 0) {
                    String id = ids[group.previousOwner[at]];
                    owned.computeIfAbsent(id, key -> new HashMap<>())
                        .computeIfAbsent(topicId, key -> new HashSet<>()).add(at - from);
                    group.inverted.computeIfAbsent(topicId, key -> new HashMap<>())
                        .put(at - from, id);
                }
            }
        }
        owned.forEach((id, partitions) ->
            group.targetAssignment.put(id, new Assignment(Collections.unmodifiableMap(partitions))));
    }

    private static void write(
            Group group,
            Map<String, ? extends org.apache.kafka.coordinator.group.api.assignor.MemberAssignment> members,
            Path file)
            throws IOException {
        int count = group.previousOwner.length;
        int[] owner = new int[count];
        Arrays.fill(owner, -1);
        members.forEach((id, assignment) -> assignment.partitions().forEach((topicId, partitions) -> {
            int from = group.partitionStarts[group.topicIndexes.get(topicId)];
            for (int partition : partitions) {
                if (owner[from + partition] != -1) {
                    throw new IllegalStateException("A partition has two owners.");
                }
                owner[from + partition] = group.memberIndexes.get(id);
            }
        }));
        ByteBuffer bytes = ByteBuffer.allocate(4 * count);
        bytes.asIntBuffer().put(owner);
        Files.write(file, bytes.array());
    }
}
