import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one virtual machine.
 *
 * Each line of the input is a class and its arguments, separated by tabs. What the tool prints, on either
 * stream, until it first exits is followed by a line "DONE" and the exit code.
 *
 * Arguments: BOOTSTRAP, which every tool is given.
 */
public final class KafkaTools {
    private static final PrintStream OUT = System.out;
    private static final PrintStream NOWHERE = new PrintStream(OutputStream.nullOutputStream());
    private static Integer code;

    private KafkaTools() { }

    private static final class Ended extends RuntimeException { }

    private static void print(PrintStream to) {
        System.setOut(to);
        System.setErr(to);
    }

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            if (code == null) {
                code = status;
            }
            print(NOWHERE); // a tool may catch the exception, say it and exit once more
            throw new Ended();
        });
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            List<String> words = new ArrayList<>(Arrays.asList(line.split("\t")));
            String tool = words.remove(0);
            words.addAll(0, List.of("--bootstrap-server", args[0]));
            code = null;
            print(OUT);
            try {
                Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) words.toArray(new String[0]));
            } catch (InvocationTargetException e) {
                if (!(e.getCause() instanceof Ended)) {
                    e.getCause().printStackTrace();
                }
            }
            OUT.println("\nDONE " + (code == null ? 0 : code));
            OUT.flush();
        }
    }
}
