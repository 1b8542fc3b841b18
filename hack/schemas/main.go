package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is the origin of schemas. Its value is also the name of their directory in
// test/chart/schemas.
type source string

const (
	kubernetes source = "kubernetes"
	reprieve   source = "reprieve"
	monitoring source = "monitoring"
)

func main() {
	root := flag.String("root", ".", "the repository, which is read")
	out := flag.String("out", ".", "where to write, in the layout of the repository")
	of := flag.String("of", string(kubernetes+","+reprieve), "whose schemas to write: kubernetes, reprieve and monitoring, which is downloaded")
	flag.Parse()
	for _, s := range strings.Split(*of, ",") {
		if err := run(source(s), *root, *out); err != nil {
			fmt.Fprintln(os.Stderr, "schemas:", err)
			os.Exit(1)
		}
	}
}

func run(from source, root, out string) error {
	var all map[string]document
	var err error
	switch from {
	case kubernetes:
		all, err = ofKubernetes(root)
	case reprieve:
		all, err = ofReprieve(root)
	case monitoring:
		all, err = ofMonitoring()
	default:
		err = fmt.Errorf("%q is not one of %s, %s, %s", from, kubernetes, reprieve, monitoring)
	}
	if err != nil {
		return err
	}
	dir := filepath.Join(out, "test", "chart", "schemas", string(from))
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the old schemas: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, err := all[name].encode()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("write a schema: %w", err)
		}
	}
	return nil
}

// gvk identifies a kind. It has the JSON form of an element of x-kubernetes-group-version-kind.
type gvk struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// file returns the file name of the kind's schema. kubeconform expects this name: the kind, the
// first word of the group, and the version.
func (k gvk) file() string {
	name := k.Kind
	if k.Group != "" {
		group, _, _ := strings.Cut(k.Group, ".")
		name += "-" + group
	}
	return strings.ToLower(name+"-"+k.Version) + ".json"
}

// document is the JSON schema of one kind.
type document struct {
	// kind is the key of the kind in definitions.
	kind string
	// definitions has the kind, and all definitions that it refers to.
	definitions map[string]schema
}

// encode returns the schema in JSON. Each definition is on one line, so that a diff is readable.
func (d document) encode() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$ref\":\"%s%s\",\"definitions\":{", definitionsAt, d.kind)
	separator := "\n"
	for _, name := range slices.Sorted(maps.Keys(d.definitions)) {
		text, err := json.Marshal(d.definitions[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&b, "%s%q:%s", separator, name, text)
		separator = ",\n"
	}
	b.WriteString("\n}}\n")
	return b.Bytes(), nil
}
