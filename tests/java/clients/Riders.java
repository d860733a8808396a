import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members that use Kafka's Java client; told and telling as tests/clients/programs/telling.py says.
 *
 * A subscription that begins with ^ is a pattern that the group's coordinator resolves.
 */
public final class Riders implements Runnable {
    private static final long COMMIT_EVERY_MS = 100;
    private static final Duration POLL = Duration.ofMillis(20);
    private static final List<String> OURS = List.of("bootstrap", "subscribe", "protocol");
    private static final Map<String, Boolean> RESTARTS = new ConcurrentHashMap<>();
    private static volatile boolean closing = false;

    private final Map<String, String> settings;
    private final String[] member;

    private Riders(Map<String, String> settings, String[] member) {
        this.settings = settings;
        this.member = member;
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> settings = new HashMap<>();
        List<Thread> threads = new ArrayList<>();
        for (String word : args) {
            String[] pair = word.split("=", 2);
            if (pair[0].equals("member")) {
                threads.add(new Thread(new Riders(settings, pair[1].split(","))));
            } else {
                settings.put(pair[0], pair[1]);
            }
        }
        threads.forEach(Thread::start);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            RESTARTS.put(line.split(" ")[1], true);
        }
        closing = true;
        for (Thread thread : threads) {
            thread.join(20_000);
        }
        System.exit(0);
    }

    @Override
    public void run() {
        while (!closing) {
            try (KafkaConsumer<byte[], byte[]> consumer = open()) {
                live(consumer);
            } catch (KafkaException e) {
                tell("FATAL", e.toString());
                return;
            }
            tell("CLOSED", "");
        }
    }

    private KafkaConsumer<byte[], byte[]> open() {
        Properties config = new Properties();
        config.put("bootstrap.servers", settings.get("bootstrap"));
        config.put("group.protocol", settings.get("protocol"));
        config.put("group.id", member[1]);
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("key.deserializer", ByteArrayDeserializer.class.getName());
        config.put("value.deserializer", ByteArrayDeserializer.class.getName());
        config.put("metadata.max.age.ms", "1000");
        config.put("reconnect.backoff.max.ms", "500");
        if (member.length > 2) {
            config.put("group.instance.id", member[2]);
        }
        settings.forEach((name, value) -> {
            if (!OURS.contains(name)) {
                config.put(name, value);
            }
        });
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config);
        String wanted = settings.get("subscribe");
        if (wanted.startsWith("^")) {
            consumer.subscribe(new SubscriptionPattern(wanted), new Listener());
        } else {
            consumer.subscribe(Arrays.asList(wanted.split(",")), new Listener());
        }
        return consumer;
    }

    /** Poll, and commit what is owned every so often. */
    private void live(KafkaConsumer<byte[], byte[]> consumer) {
        long due = 0;
        while (!closing && RESTARTS.remove(member[0]) == null) {
            consumer.poll(POLL);
            Collection<TopicPartition> owned = consumer.assignment();
            if (owned.isEmpty() || now() < due) {
                continue;
            }
            due = now() + COMMIT_EVERY_MS;
            long offset = now();
            Map<TopicPartition, OffsetAndMetadata> offsets =
                owned.stream().collect(Collectors.toMap(Function.identity(), p -> new OffsetAndMetadata(offset)));
            tell("SENT", told(owned, "=" + offset));
            try {
                consumer.commitSync(offsets, Duration.ofSeconds(30));
                tell("COMMITTED", told(owned, "=" + offset));
            } catch (KafkaException e) {
                tell("FAILED", e.toString());
            }
        }
    }

    private final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("ASSIGNED", told(partitions, ""));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("REVOKED", told(partitions, ""));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell("LOST", told(partitions, ""));
        }
    }

    private static String told(Collection<TopicPartition> partitions, String end) {
        return partitions.stream().map(p -> p.topic() + "/" + p.partition() + end).collect(Collectors.joining(","));
    }

    private void tell(String event, String what) {
        synchronized (Riders.class) {
            System.out.println(now() + " " + member[0] + " " + event + " " + what.replace('\n', ' '));
            System.out.flush();
        }
    }

    private static long now() {
        return System.nanoTime() / 1_000_000;
    }
}
