package corelane.peers;

import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The command line that all peers share, as settings of Spring Boot. */
final class CommandLine {
    private static final String USAGE =
            "--listen HOST:PORT --threads N [--static FOLDER]";

    private final List<String> settings = new ArrayList<>();

    /** The settings; a wrong command line ends the program. */
    static String[] settings(String[] arguments) {
        CommandLine line = new CommandLine();
        try {
            if (arguments.length % 2 != 0) {
                throw new IllegalArgumentException(USAGE);
            }
            for (int index = 0; index < arguments.length; index += 2) {
                line.take(arguments[index], arguments[index + 1]);
            }
        } catch (IllegalArgumentException wrong) {
            System.err.println(wrong.getMessage());
            System.exit(64);
        }
        return line.settings.toArray(String[]::new);
    }

    private void take(String name, String value) {
        switch (name) {
            case "--listen" -> listen(URI.create("http://" + value));
            case "--threads" -> threads(Integer.parseInt(value));
            case "--static" -> set(
                    "spring.web.resources.static-locations", Path.of(value).toUri());
            default -> throw new IllegalArgumentException(name + ": there are " + USAGE);
        }
    }

    private void listen(URI address) {
        set("server.address", address.getHost());
        set("server.port", address.getPort());
    }

    /** The JVM chooses its collector, its compilers and the libraries' threads by its processors. */
    private static void threads(int wanted) {
        int processors = Runtime.getRuntime().availableProcessors();
        if (wanted != processors) {
            throw new IllegalArgumentException("--threads " + wanted + ": this JVM has " + processors
                    + ", give it -XX:ActiveProcessorCount=" + wanted);
        }
    }

    /** As Spring Boot takes it from a command line. */
    private void set(String name, Object value) {
        settings.add("--" + name + "=" + value);
    }
}
