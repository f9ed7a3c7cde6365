package corelane.peers;

import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** The service on Tomcat. */
@SpringBootApplication
class Peer {
    public static void main(String[] arguments) {
        Options options = Options.of(arguments);
        List<String> settings = new ArrayList<>();
        settings.add("--server.address=" + options.address().getHost());
        settings.add("--server.port=" + options.address().getPort());
        if (options.folder() != null) {
            settings.add("--spring.web.resources.static-locations=" + options.folder().toUri());
        }
        SpringApplication.run(Peer.class, settings.toArray(String[]::new));
    }
}
