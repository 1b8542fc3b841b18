package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

//go:embed intro.md
var intro string

// readme returns the page of the chart: an introduction, and a table with a row for each value. The
// comment before a value is its description.
func readme(values []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is no mapping")
	}
	var b bytes.Buffer
	b.WriteString(intro)
	b.WriteString("\n| value | default | what it is |\n| --- | --- | --- |\n")
	if err := rows(&b, document.Content[0], ""); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// rows writes a table row for each value of a mapping. A mapping without a comment gets no row; its
// own values get rows instead.
func rows(b *bytes.Buffer, mapping *yaml.Node, path string) error {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		at := path + key.Value
		what := description(key.HeadComment)
		switch {
		case what == "" && value.Kind == yaml.MappingNode && len(value.Content) > 0:
			if err := rows(b, value, at+"."); err != nil {
				return err
			}
			continue
		case what == "":
			return fmt.Errorf("line %d: %s has no comment that describes it", key.Line, at)
		}
		var standard any
		if err := value.Decode(&standard); err != nil {
			return fmt.Errorf("line %d: %s: %w", key.Line, at, err)
		}
		shown, err := json.Marshal(standard)
		if err != nil {
			return fmt.Errorf("line %d: %s: %w", key.Line, at, err)
		}
		fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", at, shown, strings.ReplaceAll(what, "|", `\|`))
	}
	return nil
}

// description returns the last paragraph of a comment as one line.
func description(comment string) string {
	paragraphs := strings.Split(comment, "\n\n")
	var words []string
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		words = append(words, strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "#"))...)
	}
	return strings.Join(words, " ")
}
