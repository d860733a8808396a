import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.message.ApiMessageType;

/** Prints the API versions that Kafka marks stable, and its group and broker configs. */
public final class VersionCheck {
    public static void main(String[] arguments) throws Exception {
        for (ApiMessageType type : ApiMessageType.values()) {
            System.out.println(String.join("\t", "api", Short.toString(type.apiKey()), type.name,
                Short.toString(type.lowestSupportedVersion()),
                Short.toString(type.highestSupportedVersion(false))));
        }
        print("broker", "org.apache.kafka.server.config.AbstractKafkaConfig");
        print("group", "org.apache.kafka.coordinator.group.GroupConfig");
        print("topic", "org.apache.kafka.storage.internals.log.LogConfig");
    }

    private static void print(String scope, String holder) throws Exception {
        ConfigDef configs;
        try {
            configs = (ConfigDef) Class.forName(holder).getField("CONFIG_DEF").get(null);
        } catch (NoSuchFieldException missing) {
            configs = (ConfigDef) Class.forName(holder).getMethod("configDefCopy").invoke(null);
        }
        for (ConfigDef.ConfigKey key : new TreeMap<>(configs.configKeys()).values()) {
            System.out.println(String.join("\t", scope, key.name, key.type.name(),
                String.valueOf(key.defaultValue), String.valueOf(key.validator),
                key.importance.name(), Boolean.toString(key.internalConfig)));
        }
    }
}
