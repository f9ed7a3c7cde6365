// Command go serves the routes of the reference service with net/http.
package main

import (
	"flag"
	"log"
	"net/http"
	"runtime"
	"strings"
	"time"
)

// options are the command line that all peers share.
type options struct {
	listen  string
	threads int
	static  string
}

func main() {
	var given options
	flag.StringVar(&given.listen, "listen", "", "address to serve")
	flag.IntVar(&given.threads, "threads", 1, "CPUs that run Go code at once")
	flag.StringVar(&given.static, "static", "", "folder of the files below /static/")
	flag.Parse()
	runtime.GOMAXPROCS(given.threads)
	if err := serve(given); err != nil {
		log.Fatal(err)
	}
}

func serve(given options) error {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /hello", hello)
	routes.HandleFunc("GET /div/{n}", div)
	routes.HandleFunc("GET /work", work)
	if given.static != "" {
		routes.Handle("GET /static/", http.StripPrefix("/static/", files(given.static)))
	}
	server := http.Server{
		Addr:    given.listen,
		Handler: routes,
		// Without them a client that says nothing keeps its connection for ever (pkg.go.dev/net/http#Server).
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       75 * time.Second,
	}
	return server.ListenAndServe()
}

// files serves a folder by http.FileServer, which uses sendfile(2) for http.Dir. It would redirect
// /index.html to /, so that page is served by http.ServeContent, which it calls itself.
func files(folder string) http.Handler {
	root := http.Dir(folder)
	others := http.FileServer(root)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "index.html") {
			others.ServeHTTP(w, r)
			return
		}
		file, err := root.Open(r.URL.Path)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer file.Close()
		status, err := file.Stat()
		if err != nil || status.IsDir() {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, status.Name(), status.ModTime(), file)
	})
}
