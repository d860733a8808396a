import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Runs a consumer with automatic commits until it has fetched, closes it, and prints the position of the
 * topic's first partition and what was committed for it.
 *
 * Arguments: BOOTSTRAP GROUP TOPIC PROTOCOL.
 */
public final class Stay {
    private Stay() { }

    public static void main(String[] args) {
        Map<String, Object> config = Map.of("bootstrap.servers", args[0], "group.id", args[1],
            "group.protocol", args[3], "auto.offset.reset", "earliest", "fetch.max.wait.ms", "100");
        TopicPartition partition = new TopicPartition(args[2], 0);
        long position;
        try (var consumer = consumer(config)) {
            consumer.subscribe(List.of(args[2]));
            // The lag is known once a fetch was answered.
            while (!consumer.assignment().contains(partition) || consumer.currentLag(partition).isEmpty()) {
                consumer.poll(Duration.ofMillis(100));
            }
            consumer.poll(Duration.ofMillis(500));
            position = consumer.position(partition);
        }
        try (var consumer = consumer(config)) {
            OffsetAndMetadata committed = consumer.committed(java.util.Set.of(partition)).get(partition);
            System.out.println(position + " " + (committed == null ? "nothing" : committed.offset()));
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> config) {
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
