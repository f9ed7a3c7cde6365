// Command go serves the routes of the reference service with net/http.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"runtime"
	"strconv"
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
	routes.HandleFunc("GET /work/{name}", work)
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

// Shared by all replies: the server only reads it, and one is not made for each request.
var plain = []string{"text/plain; charset=utf-8"}

func text(w http.ResponseWriter, body string) {
	w.Header()["Content-Type"] = plain
	io.WriteString(w, body)
}

func hello(w http.ResponseWriter, _ *http.Request) {
	text(w, "Hello, World!")
}

func div(w http.ResponseWriter, r *http.Request) {
	half, ok := halve(r.PathValue("n"))
	if !ok {
		http.Error(w, "n must be a decimal number such as 4, -7 or 0.25", http.StatusBadRequest)
		return
	}
	text(w, half)
}

// halve divides a decimal number of any length by two, digit by digit.
func halve(n string) (string, bool) {
	digits, negative := strings.CutPrefix(n, "-")
	whole, fraction, pointed := strings.Cut(digits, ".")
	if !pointed {
		fraction = "0"
	}
	if !isDigits(whole) || !isDigits(fraction) {
		return "", false
	}
	// One more digit takes up the last remainder: halves end in 5.
	half := make([]byte, 0, len(n)+3)
	rest := byte(0)
	for _, digit := range []byte(whole + fraction + "0") {
		value := rest*10 + digit - '0'
		half = append(half, '0'+value/2)
		rest = value % 2
	}
	whole = strings.TrimLeft(string(half[:len(whole)]), "0")
	if whole == "" {
		whole = "0"
	}
	fraction = strings.TrimRight(string(half[len(half)-len(fraction)-1:]), "0")
	if fraction != "" {
		whole += "." + fraction
	}
	if negative && whole != "0" {
		whole = "-" + whole
	}
	return whole, true
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

func work(w http.ResponseWriter, r *http.Request) {
	ops, err := strconv.ParseUint(r.URL.Query().Get("ops"), 10, 64)
	if err != nil {
		http.Error(w, "ops must be a whole number", http.StatusBadRequest)
		return
	}
	state := uint64(1)
	for range ops {
		state = state*6364136223846793005 + 1442695040888963407
	}
	text(w, fmt.Sprintf("%016x\n", state))
}
