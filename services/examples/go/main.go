// A service without the Corelane library: requests on PORT, a health check, metrics, and an end that cuts no request.
//
//	CGO_ENABLED=0 go build -o web . && PORT=8080 ./web
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	replica := os.Getenv("HOSTNAME") // the name of the pod
	var requests atomic.Int64

	http.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "# HELP web_requests_total Requests of clients.\n# TYPE web_requests_total counter")
		fmt.Fprintln(w, "web_requests_total", requests.Load())
	})
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("corelane-replica", replica)
		fmt.Fprintln(w, "go", os.Getenv("VERSION"))
	})

	server := &http.Server{
		Addr: ":" + os.Getenv("PORT"),
		// The gateway closes idle connections first: upstream.idleTimeout is 30 s.
		IdleTimeout:       75 * time.Second,
		ReadHeaderTimeout: 10 * time.Second,
	}
	terminated, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	finished := make(chan error)
	go func() {
		<-terminated.Done()
		// Less than drain.deadline minus drain.settle, which is 25 s.
		limit, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		finished <- server.Shutdown(limit)
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		log.Fatal(err)
	}
	if err := <-finished; err != nil {
		log.Fatal("requests were cut: ", err)
	}
	log.Print("drained")
}
