module corelane.example/web

go 1.22
