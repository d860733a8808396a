import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A share consumer that polls until its input says something or ends; then it closes, and so leaves its group.
 *
 * It prints "assigned" once the group's coordinator says that it has partitions, "failed ..." when a poll
 * fails, and "closed" at the end. A share consumer cannot say itself what it is assigned.
 *
 * Arguments: BOOTSTRAP GROUP TOPIC CLIENT_ID.
 */
public final class ShareMember {
    private ShareMember() { }

    public static void main(String[] args) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", args[0], "group.id", args[1], "client.id", args[3]);
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaShareConsumer<>(config, bytes, bytes)) {
            consumer.subscribe(List.of(args[2]));
            new Thread(() -> waitForWord(consumer)).start();
            Thread teller = new Thread(() -> tell(args));
            teller.setDaemon(true);
            teller.start();
            while (true) {
                try {
                    consumer.poll(Duration.ofSeconds(1));
                } catch (WakeupException e) {
                    break;
                } catch (Exception e) {
                    System.out.println("failed " + e);
                }
            }
        }
        System.out.println("closed");
        System.exit(0);
    }

    private static void waitForWord(KafkaShareConsumer<?, ?> consumer) {
        try {
            System.in.read();
        } catch (java.io.IOException e) {
            System.out.println("failed " + e);
        }
        consumer.wakeup();
    }

    private static void tell(String[] args) {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            while (true) {
                try {
                    var group = admin.describeShareGroups(List.of(args[1])).all().get().get(args[1]);
                    if (group.members().stream().anyMatch(member -> member.clientId().equals(args[3])
                        && !member.assignment().topicPartitions().isEmpty())) {
                        break;
                    }
                } catch (java.util.concurrent.ExecutionException e) {
                    // The group is not there yet.
                }
                Thread.sleep(200);
            }
        } catch (InterruptedException e) {
            return;
        }
        System.out.println("assigned");
    }
}
