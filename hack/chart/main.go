package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the repository, which is read")
	out := flag.String("out", ".", "where to write, in the layout of the repository")
	flag.Parse()
	if err := run(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(root, out string) error {
	const chart = "charts/reprieve"
	copied, err := filesOf(filepath.Join(root, "deploy"))
	if err != nil {
		return err
	}
	values, err := os.ReadFile(filepath.Join(root, chart, "values.yaml"))
	if err != nil {
		return fmt.Errorf("read the values: %w", err)
	}
	page, err := readme(values)
	if err != nil {
		return fmt.Errorf("values.yaml: %w", err)
	}
	known, err := os.ReadFile(filepath.Join(root, chart, "values.schema.json"))
	if err != nil {
		return fmt.Errorf("read the schema of the values: %w", err)
	}
	if known, err = withArgs(known); err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	if err := write(filepath.Join(out, chart, "values.schema.json"), known); err != nil {
		return err
	}
	// Remove copies of files that deploy/ no longer has.
	if err := os.RemoveAll(filepath.Join(out, chart, filesDir)); err != nil {
		return fmt.Errorf("remove the old files: %w", err)
	}
	for name, content := range copied {
		if err := write(filepath.Join(out, chart, filesDir, name), content); err != nil {
			return err
		}
	}
	return write(filepath.Join(out, chart, "README.md"), page)
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return fmt.Errorf("write a file: %w", err)
	}
	return nil
}
