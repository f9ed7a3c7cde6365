package corelane.peers;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** The service on Tomcat. */
@SpringBootApplication
class TomcatPeer {
    public static void main(String[] arguments) {
        SpringApplication.run(TomcatPeer.class, CommandLine.settings(arguments));
    }
}
