package docs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// quotedCommand is a command of kubectl or helm within a line of text.
var quotedCommand = regexp.MustCompile("`((?:kubectl|helm) [^`]+)`")

// commandsIn returns the commands that a page asks its readers to type: those in console blocks,
// and commands of kubectl and helm in the text.
func commandsIn(page string) []string {
	var out []string
	inside, goesOn := false, false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside && strings.HasPrefix(line, "```console")
			continue
		case !inside:
			for _, m := range quotedCommand.FindAllStringSubmatch(line, -1) {
				out = append(out, m[1])
			}
			continue
		}
		command, begins := strings.CutPrefix(line, "$ ")
		command, _, _ = strings.Cut(command, " #")
		rest, more := strings.CutSuffix(command, "\\")
		switch {
		case begins:
			out = append(out, rest)
		case goesOn:
			out[len(out)-1] += " " + rest
		}
		goesOn = more && (begins || goesOn)
	}
	return out
}

// flagsOf returns the flags of a program that pages may name. The flags of kubectl and helm come
// from their documentation.
func flagsOf(program string) []string {
	switch program {
	case "kubectl":
		return []string{"-A", "-f", "-k", "-n", "-o", "--clusterrole", "--cascade", "--field-selector", "--ignore-not-found", "--resource", "--role", "--serviceaccount", "--verb", "--watch"}
	case "helm":
		return []string{"--namespace", "--reset-then-reuse-values", "--reuse-values", "--set", "--take-ownership", "--wait"}
	default:
		return nil
	}
}

// installed returns the objects of deploy/ as kind/name in lower case, with the namespace before it
// if there is one.
func installed(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join("..", "deploy"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), len(raw)+1)
		for {
			var o unstructured.Unstructured
			err := documents.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			name := strings.ToLower(o.GetKind()) + "/" + o.GetName()
			out = append(out, name, o.GetNamespace()+" "+name)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// values returns the paths of the chart's values.
func values(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "charts", "reprieve", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := yaml.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	var out []string
	var below func(at string, of map[string]any)
	below = func(at string, of map[string]any) {
		for name, value := range of {
			out = append(out, at+name)
			if inner, ok := value.(map[string]any); ok {
				below(at+name+".", inner)
			}
		}
	}
	below("", all)
	return out
}

// amiss names a part of a command that does not exist; "" if there is none. Words in capitals are
// placeholders for readers.
func amiss(command string, known, settable []string) string {
	words := strings.Fields(command)
	namespace := ""
	for i, word := range words {
		flag, given, joined := strings.Cut(word, "=")
		if !joined && i+1 < len(words) {
			given = words[i+1]
		}
		if flags := flagsOf(words[0]); strings.HasPrefix(word, "-") && flags != nil && !slices.Contains(flags, flag) {
			return "the flag " + flag
		}
		switch {
		case flag == "-n" || flag == "--namespace":
			namespace = given
		case (flag == "-f" || flag == "-k") && !exists(given):
			return "the path " + given
		case flag == "--set" && !slices.Contains(settable, before(given, "=")):
			return "the value " + before(given, "=")
		case flag == "--clusterrole" && !slices.Contains(known, "clusterrole/"+given):
			return "the ClusterRole " + given
		case strings.HasPrefix(word, "charts/") && !exists(word):
			return "the chart " + word
		case strings.HasPrefix(word, "deployment/") && !slices.Contains(known, strings.TrimSpace(namespace+" "+word)):
			return word + " in the namespace " + namespace
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join("..", filepath.FromSlash(path)))
	return err == nil
}

func before(s, separator string) string {
	s, _, _ = strings.Cut(s, separator)
	return s
}

// TestCommands checks that the paths, flags, values and objects in the commands of the pages exist.
func TestCommands(t *testing.T) {
	t.Parallel()
	known, settable := installed(t), values(t)
	for page, least := range map[string]int{"quickstart.md": 8, "monitoring.md": 3, "../charts/reprieve/README.md": 9} {
		raw, err := os.ReadFile(filepath.FromSlash(page))
		if err != nil {
			t.Fatal(err)
		}
		commands := commandsIn(string(raw))
		if len(commands) < least {
			t.Errorf("%s has the commands %q only", page, commands)
		}
		for _, command := range commands {
			if fault := amiss(command, known, settable); fault != "" {
				t.Errorf("%s: %q: there is not %s", page, command, fault)
			}
		}
	}
	for command, want := range map[string]string{
		"kubectl apply -k deploy/":                                                                "",
		"kubectl apply -k deployed/":                                                              "the path deployed/",
		"kubectl apply --kustomise deploy/":                                                       "the flag --kustomise",
		"kubectl -n reprieve-system rollout status deployment/reprieve-scheduler":                 "",
		"kubectl -n reprieve rollout status deployment/reprieve-scheduler":                        "deployment/reprieve-scheduler in the namespace reprieve",
		"helm install reprieve charts/reprieved --namespace a":                                    "the chart charts/reprieved",
		"helm install reprieve charts/reprieve --set image.repo=a":                                "the value image.repo",
		"kubectl create clusterrolebinding a --clusterrole=reprieve-metrics --serviceaccount=a:b": "the ClusterRole reprieve-metrics",
	} {
		if got := amiss(command, known, settable); got != want {
			t.Errorf("of %q, %q is amiss, want %q", command, got, want)
		}
	}
}
