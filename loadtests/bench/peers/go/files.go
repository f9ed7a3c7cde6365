package main

import (
	"net/http"
	"strings"
)

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
