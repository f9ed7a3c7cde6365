package corelane.peers;

import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.RestControllerAdvice;

/** A request that is answered with a status alone. */
class Refusal extends RuntimeException {
    private final HttpStatus status;

    Refusal(HttpStatus status) {
        // Nobody reads where it came from.
        super(status.toString(), null, false, false);
        this.status = status;
    }

    /** The reply. */
    @RestControllerAdvice
    static class Handler {
        @ExceptionHandler
        ResponseEntity<Void> reply(Refusal refusal) {
            ResponseEntity.HeadersBuilder<?> reply = ResponseEntity.status(refusal.status);
            if (refusal.status == HttpStatus.UNAUTHORIZED) {
                reply.header(HttpHeaders.WWW_AUTHENTICATE, "Bearer");
            }
            return reply.build();
        }
    }
}
