package corelane.peers;

import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The command line that all peers share, as settings of Spring Boot. */
final class CommandLine {
    private static final String USAGE =
            "--listen HOST:PORT --threads N [--static FOLDER] [--database URL] [--token TOKEN]";

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
            case "--database" -> database(URI.create(value));
            case "--token" -> set("peers.token", value);
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

    /** For both drivers: each program has one of them. */
    private void database(URI url) {
        String[] user = url.getUserInfo().split(":", 2);
        String place = url.getHost() + ":" + url.getPort() + url.getPath();
        set("peers.database", true);
        set("spring.datasource.url", "jdbc:postgresql://" + place);
        set("spring.r2dbc.url", "r2dbc:postgresql://" + place);
        for (String driver : new String[] {"spring.datasource", "spring.r2dbc"}) {
            set(driver + ".username", user[0]);
            set(driver + ".password", user[1]);
        }
    }

    /** As Spring Boot takes it from a command line. */
    private void set(String name, Object value) {
        settings.add("--" + name + "=" + value);
    }
}
