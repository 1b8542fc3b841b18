// Command pictures draws the pictures of the documentation: an SVG for each text in docs/pictures.
// The SVG has colors for light and dark displays, and a title and description for screen readers.
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

// drawAll draws each YAML file of dir into an SVG file of the same name.
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

// pictureOf returns the path of the picture for the path of a text.
func pictureOf(text string) string { return strings.TrimSuffix(text, ".yaml") + ".svg" }

// drawFile returns the picture of one text.
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
