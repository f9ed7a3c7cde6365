package corelane.peers;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** The service on Netty. */
@SpringBootApplication
class NettyPeer {
    public static void main(String[] arguments) {
        SpringApplication.run(NettyPeer.class, CommandLine.settings(arguments));
    }
}
