import java.util.Properties;
import java.util.TreeSet;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/** A Kafka Streams application that counts by key in memory, with group.protocol=streams.
 *
 * It prints a line whenever its state or its tasks change: "STATE active=0_0,0_1 standby=". The line
 * "stop" on its input, or its end, closes it.
 *
 * Arguments: bootstrap servers, application id, input topic, state directory.
 */
public class StreamsApplication {
    public static void main(String[] arguments) throws Exception {
        Properties configs = new Properties();
        configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        configs.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        configs.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        configs.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        configs.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        configs.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .selectKey((key, value) -> value)
            .groupByKey()
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts")));
        KafkaStreams streams = new KafkaStreams(builder.build(), configs);
        streams.start();
        Thread printer = new Thread(() -> print(streams));
        printer.setDaemon(true);
        printer.start();
        while (true) {
            int read = System.in.read();
            if (read < 0 || read == 's') break;
        }
        streams.close();
        System.out.println("CLOSED");
    }

    private static void print(KafkaStreams streams) {
        String last = "";
        try {
            while (true) {
                TreeSet<String> active = new TreeSet<>(), standby = new TreeSet<>();
                for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
                    for (TaskMetadata task : thread.activeTasks()) active.add(task.taskId().toString());
                    for (TaskMetadata task : thread.standbyTasks()) standby.add(task.taskId().toString());
                }
                String line = streams.state() + " active=" + String.join(",", active)
                    + " standby=" + String.join(",", standby);
                if (!line.equals(last)) System.out.println(line);
                last = line;
                Thread.sleep(50);
            }
        } catch (InterruptedException | IllegalStateException stopped) {
            // It is closing.
        }
    }
}
