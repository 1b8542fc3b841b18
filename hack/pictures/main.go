// Command pictures draws the pictures of the documentation. It writes an SVG file for each YAML
// file in docs/pictures. The SVG has colors for light and dark displays, and a title and
// description for screen readers.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	dir := flag.String("dir", filepath.Join("docs", "pictures"), "the directory of the texts and the pictures")
	flag.Parse()
	if err := drawAll(*dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// drawAll draws each YAML file of dir into an SVG file. The files differ only in their extension.
func drawAll(dir string) error {
	texts, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, text := range texts {
		svg, err := drawFile(text)
		if err != nil {
			return err
		}
		if err := os.WriteFile(pictureOf(text), svg, 0o644); err != nil { //nolint:gosec // everybody may read a picture
			return err
		}
	}
	return nil
}

// pictureOf returns the path of the SVG file for a YAML file.
func pictureOf(text string) string { return strings.TrimSuffix(text, ".yaml") + ".svg" }

// drawFile returns the SVG for a YAML file.
func drawFile(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var p picture
	if err := yaml.UnmarshalStrict(raw, &p); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out bytes.Buffer
	p.draw(&out)
	return out.Bytes(), nil
}
