import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.coordinator.group.streams.TopologyMetadata;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;

/**
 * A streams group. Arrays: task_starts, is_stateful, standby_replicas (one number), member_process,
 * previous_active, standby_starts, previous_standby.
 *
 * <p>The assignment is three arrays: active, standby_starts and standbys.
 */
final class StreamsPeerGroup implements PeerGroup {
    private final StickyTaskAssignor assignor = new StickyTaskAssignor();
    private final int[] taskStarts;
    private final String[] memberIds;
    private final Map<String, StreamsGroupMember> members = new LinkedHashMap<>();
    private final Map<String, TasksTuple> targetAssignment = new HashMap<>();
    private final Map<String, String> configs;
    private final ConfiguredTopology topology;
    private final TopologyMetadata metadata;
    private final GroupSpecImpl spec;

    StreamsPeerGroup(IntBuffer numbers) {
        taskStarts = AssignorPeer.array(numbers);
        topology = topology(AssignorPeer.array(numbers));
        metadata = new TopologyMetadata(
            CoordinatorMetadataImage.EMPTY, topology.subtopologies().orElseThrow());
        configs = Map.of("num.standby.replicas", String.valueOf(AssignorPeer.array(numbers)[0]));
        int[] memberProcess = AssignorPeer.array(numbers);
        memberIds = new String[memberProcess.length];
        for (int member = 0; member < memberIds.length; member++) {
            memberIds[member] = String.format("member-%06d", member);
            members.put(memberIds[member], new StreamsGroupMember.Builder(memberIds[member])
                .setProcessId(String.format("process-%06d", memberProcess[member]))
                .setClientTags(Map.of()).build());
        }
        makeAssignment(
            AssignorPeer.array(numbers), AssignorPeer.array(numbers), AssignorPeer.array(numbers));
        spec = spec();
    }

    @Override
    public GroupAssignment assign() {
        return assignor.assign(spec, metadata);
    }

    @Override
    public Object build() {
        return new TargetAssignmentBuilder("group", 2, assignor, configs)
            .withTime(Time.SYSTEM)
            .withMembers(members)
            .withTopology(topology)
            .withMetadataImage(CoordinatorMetadataImage.EMPTY)
            .withTargetAssignment(targetAssignment)
            .build();
    }

    @Override
    public int[][] assignment() {
        GroupAssignment given = assign();
        int tasks = taskStarts[taskStarts.length - 1];
        int[] active = new int[tasks];
        Arrays.fill(active, -1);
        int[] starts = new int[tasks + 1];
        for (String id : memberIds) {
            each(given.members().get(id).standbyTasks(), task -> starts[task + 1]++);
        }
        Arrays.parallelPrefix(starts, Integer::sum);
        int[] standbys = new int[starts[tasks]];
        int[] at = Arrays.copyOf(starts, tasks);
        for (int member = 0; member < memberIds.length; member++) {
            int number = member;
            each(given.members().get(memberIds[member]).activeTasks(), task -> active[task] = number);
            each(given.members().get(memberIds[member]).standbyTasks(),
                task -> standbys[at[task]++] = number);
        }
        return new int[][] {active, starts, standbys};
    }

    private void each(Map<String, Set<Integer>> tasks, java.util.function.IntConsumer take) {
        tasks.forEach((id, partitions) -> {
            int from = taskStarts[Integer.parseInt(id)];
            partitions.forEach(partition -> take.accept(from + partition));
        });
    }

    private static String subtopologyId(int number) {
        return String.format("%06d", number);
    }

    private ConfiguredTopology topology(int[] isStateful) {
        SortedMap<String, ConfiguredSubtopology> subtopologies = new TreeMap<>();
        for (int number = 0; number < isStateful.length; number++) {
            String log = "changelog-" + number;
            int size = taskStarts[number + 1] - taskStarts[number];
            Map<String, ConfiguredInternalTopic> logs = isStateful[number] == 0 ? Map.of()
                : Map.of(log, new ConfiguredInternalTopic(log, size, Optional.empty(), Map.of()));
            subtopologies.put(subtopologyId(number), new ConfiguredSubtopology(
                size, Set.of("topic-" + number), Map.of(), Set.of(), logs));
        }
        return new ConfiguredTopology(
            0, 0, Optional.of(subtopologies), Map.of(), Optional.empty());
    }

    private GroupSpecImpl spec() {
        Map<String, AssignmentMemberSpec> rows = new LinkedHashMap<>();
        members.forEach((id, member) -> {
            TasksTuple before = targetAssignment.getOrDefault(id, TasksTuple.EMPTY);
            rows.put(id, new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), before.activeTasks(), before.standbyTasks(),
                Map.of(), member.processId(), Map.of(), Map.of(), Map.of()));
        });
        return new GroupSpecImpl(Collections.unmodifiableMap(rows), configs);
    }

    private void makeAssignment(int[] previousActive, int[] starts, int[] standbys) {
        Map<String, Map<String, Set<Integer>>> active = new HashMap<>();
        Map<String, Map<String, Set<Integer>>> standby = new HashMap<>();
        for (int number = 0; number + 1 < taskStarts.length; number++) {
            for (int task = taskStarts[number]; task < taskStarts[number + 1]; task++) {
                int partition = task - taskStarts[number];
                if (previousActive[task] >= 0) {
                    put(active, memberIds[previousActive[task]], number, partition);
                }
                for (int at = starts[task]; at < starts[task + 1]; at++) {
                    put(standby, memberIds[standbys[at]], number, partition);
                }
            }
        }
        for (String id : memberIds) {
            if (active.containsKey(id) || standby.containsKey(id)) {
                targetAssignment.put(id, new TasksTuple(
                    active.getOrDefault(id, Map.of()), standby.getOrDefault(id, Map.of()), Map.of()));
            }
        }
    }

    private static void put(
            Map<String, Map<String, Set<Integer>>> tasks, String memberId, int number, int partition) {
        tasks.computeIfAbsent(memberId, key -> new HashMap<>())
            .computeIfAbsent(subtopologyId(number), key -> new HashSet<>()).add(partition);
    }
}
