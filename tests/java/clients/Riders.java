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
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
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
    private static final long CLOSE_MS = 120_000;
    private static final Duration POLL = Duration.ofMillis(20);
    private static final List<String> OURS = List.of("bootstrap", "subscribe", "protocol");
    private final Map<String, String> settings;
    private final String[] member;
    private final BlockingQueue<String> orders = new LinkedBlockingQueue<>();

    private Riders(Map<String, String> settings, String[] member) {
        this.settings = settings;
        this.member = member;
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> settings = new HashMap<>();
        Map<String, Riders> riders = new HashMap<>();
        List<String> closed = new ArrayList<>();
        for (String word : args) {
            String[] pair = word.split("=", 2);
            if (pair[0].equals("member")) {
                String[] member = pair[1].split(",");
                riders.put(member[0], new Riders(settings, member));
            } else if (pair[0].equals("closed")) {
                closed.addAll(Arrays.asList(pair[1].split(",")));
            } else {
                settings.put(pair[0], pair[1]);
            }
        }
        List<Thread> threads = new ArrayList<>();
        riders.forEach((label, rider) -> {
            if (!closed.contains(label)) {
                rider.orders.add("open");
            }
            threads.add(new Thread(rider));
        });
        threads.forEach(Thread::start);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            riders.get(words[1]).orders.add(words[0]);
        }
        riders.values().forEach(rider -> rider.orders.add("end"));
        for (Thread thread : threads) {
            thread.join(CLOSE_MS);
        }
        System.exit(0);
    }

    /** Open and close as ordered, until the end. */
    @Override
    public void run() {
        try {
            String order = orders.take();
            while (!order.equals("end")) {
                if (order.equals("close")) {
                    order = orders.take();
                    continue;
                }
                try (KafkaConsumer<byte[], byte[]> consumer = open()) {
                    order = live(consumer);
                }
                tell("CLOSED", "");
            }
        } catch (KafkaException | InterruptedException e) {
            tell("FATAL", e.toString());
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

    /** Poll, and commit what is owned every so often, until there is an order. */
    private String live(KafkaConsumer<byte[], byte[]> consumer) throws InterruptedException {
        long due = 0;
        while (orders.isEmpty()) {
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
        return orders.take();
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
