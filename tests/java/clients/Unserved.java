import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Asks for what a cluster without records, transactions, security and quotas does not do, and prints what
 * became of each call: its result, or the exception and its sentence.
 *
 * Arguments: BOOTSTRAP TOPIC.
 */
public final class Unserved {
    private static final String TIMEOUT_MS = "30000";

    private Unserved() { }

    public static void main(String[] args) throws Exception {
        TopicPartition partition = new TopicPartition(args[1], 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0], "default.api.timeout.ms", TIMEOUT_MS))) {
            say("features", () -> admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("group.version").maxVersionLevel());
            say("acls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
            say("delete-acls", () -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all().get());
            say("delete-records", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(partition).get().lowWatermark());
            say("log-dirs", () -> admin.describeLogDirs(List.of(0)).allDescriptions().get().get(0).size());
            say("elections", () -> admin.electLeaders(ElectionType.PREFERRED, null).partitions().get());
            say("election", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get().get(partition).get().getClass().getSimpleName());
            say("reassignments", () -> admin.listPartitionReassignments().reassignments().get());
            say("reassign", () -> admin.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(List.of(7))))).all().get());
            say("quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
            say("scram", () -> admin.describeUserScramCredentials().all().get());
            say("producers", () -> admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers());
            say("transactions", () -> admin.listTransactions().all().get());
            say("fence", () -> admin.fenceProducers(List.of("transaction")).all().get());
        }
        say("produce", () -> produce(args, Map.of()));
        say("produce-in-transaction", () -> produce(args, Map.of("transactional.id", "transaction")));
    }

    private static Object produce(String[] args, Map<String, Object> more) throws Exception {
        Map<String, Object> config = new java.util.HashMap<>(more);
        config.put("bootstrap.servers", args[0]);
        config.put("max.block.ms", TIMEOUT_MS);
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (!more.isEmpty()) {
                producer.initTransactions();
            }
            return producer.send(new ProducerRecord<>(args[1], new byte[1])).get();
        }
    }

    private static void say(String name, Callable<Object> call) {
        Object outcome;
        try {
            outcome = call.call();
        } catch (ExecutionException e) {
            outcome = e.getCause().getClass().getSimpleName() + ": " + e.getCause().getMessage();
        } catch (Exception e) {
            outcome = e.getClass().getSimpleName() + ": " + e.getMessage();
        }
        System.out.println(name + "\t" + outcome);
    }
}
