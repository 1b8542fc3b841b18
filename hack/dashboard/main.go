// The dashboard command draws the panels of the chart's Grafana dashboard as one picture. Its input
// has the answers of a Prometheus server to the queries of the panels. The picture resembles
// Grafana's, so a reviewer of the dashboard does not need Grafana.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

func main() {
	from := flag.String("dashboard", "charts/reprieve/monitoring/dashboard.json", "the dashboard")
	data := flag.String("data", "", "the answers to its queries: the file of TestDashboard's -dashboard-data")
	out := flag.String("out", "", "the picture to write, as SVG")
	flag.Parse()
	if err := run(*from, *data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(from, data, out string) error {
	var d dashboard
	if err := read(from, &d); err != nil {
		return err
	}
	var a answers
	if err := read(data, &a); err != nil {
		return err
	}
	picture, err := draw(&d, &a)
	if err != nil {
		return err
	}
	return os.WriteFile(out, []byte(picture), 0o644)
}

func read(path string, into any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
