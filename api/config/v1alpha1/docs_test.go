package v1alpha1

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configvalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// page returns docs/configuration.md.
func page(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// examples returns the YAML blocks of the page: whole is a complete configuration, and args are
// examples of the plugin's arguments.
func examples(t *testing.T) (whole string, args []string) {
	t.Helper()
	var blocks []string
	for _, text := range strings.Split(page(t), "```yaml\n")[1:] {
		text, _, _ = strings.Cut(text, "```")
		blocks = append(blocks, text)
	}
	if len(blocks) < 2 {
		t.Fatal("the page has no examples")
	}
	return blocks[0], blocks[1:]
}

// TestDocumentedExamples checks that the scheduler accepts every example of arguments.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	_, args := examples(t)
	for _, text := range args {
		if _, err := Decode(&runtime.Unknown{Raw: []byte(text)}); err != nil {
			t.Errorf("%v in the example\n%s", err, text)
		}
	}
}

// TestDocumentedConfiguration reads and checks the complete configuration as the scheduler does.
func TestDocumentedConfiguration(t *testing.T) {
	t.Parallel()
	whole, _ := examples(t)
	obj, _, err := configscheme.Codecs.UniversalDecoder().Decode([]byte(whole), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		t.Fatalf("it is a %T", obj)
	}
	cfg.APIVersion = "kubescheduler.config.k8s.io/v1"
	if err := configvalidation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		t.Error(err)
	}
	if cfg.LeaderElection.ResourceName != "reprieve-scheduler" {
		t.Errorf("the lease is %s, which is another scheduler's", cfg.LeaderElection.ResourceName)
	}
	if len(cfg.Profiles) != 2 {
		t.Fatalf("%d profiles, want 2", len(cfg.Profiles))
	}
	var decoded []*ReprieveArgs
	for i := range cfg.Profiles {
		args := argsOf(t, &cfg.Profiles[i])
		decoded = append(decoded, args)
		if sort := cfg.Profiles[i].Plugins.QueueSort.Enabled; len(sort) != 1 || sort[0].Name != "ReprievePrioritySort" {
			t.Errorf("profile %d sorts by %v", i, sort)
		}
	}
	if !*decoded[0].PreemptionToleration || *decoded[1].PreemptionToleration {
		t.Error("the profiles do not have arguments of their own")
	}
}

// argsOf decodes the plugin's arguments of a profile. They have the form that the plugin's factory
// receives.
func argsOf(t *testing.T, profile *config.KubeSchedulerProfile) *ReprieveArgs {
	t.Helper()
	var given runtime.Object
	for _, c := range profile.PluginConfig {
		if c.Name == "Reprieve" {
			given = c.Args
		}
	}
	args, err := Decode(given)
	if err != nil {
		t.Fatalf("profile %s: %v", profile.SchedulerName, err)
	}
	return args
}

// TestDocumentedBounds checks the bounds on the page. Validation must accept a bound and reject the
// next value beyond it.
func TestDocumentedBounds(t *testing.T) {
	t.Parallel()
	number := regexp.MustCompile(`^[0-9]+$`)
	section := regexp.MustCompile(`(?m)^### (\S+)\n\n((?:.+\n)+)`)
	bounds := regexp.MustCompile(`Between\s(\w+)\sand\s(\w+)`)
	checked := 0
	for _, s := range section.FindAllStringSubmatch(page(t), -1) {
		b := bounds.FindStringSubmatch(s[2])
		if b == nil {
			continue
		}
		checked++
		for i, beyond := range []time.Duration{-1, 1} {
			inside := b[1+i]
			var outside string
			if number.MatchString(inside) {
				outside = map[time.Duration]string{-1: "-1", 1: inside + "0"}[beyond]
			} else {
				d, err := time.ParseDuration(inside)
				if err != nil {
					t.Fatal(err)
				}
				outside = (d + beyond).String()
			}
			if _, err := Decode(argument(s[1], inside)); err != nil {
				t.Errorf("%s: %s is refused: %v", s[1], inside, err)
			}
			if _, err := Decode(argument(s[1], outside)); err == nil || !strings.Contains(err.Error(), s[1]) {
				t.Errorf("%s: %s is taken, or the wrong field is refused: %v", s[1], outside, err)
			}
		}
	}
	if checked < 9 {
		t.Errorf("only %d fields have bounds", checked)
	}
}

// argument returns arguments in which one field, given by its path, has a value. It also sets the
// fields that validation compares with this field.
func argument(path, value string) *runtime.Unknown {
	outer, inner, nested := strings.Cut(path, ".")
	text := outer + ": " + value
	if nested {
		text = outer + ": {" + inner + ": " + value + "}"
	}
	switch path {
	case "retry.initialBackoff":
		text = "retry: {maxBackoff: 24h, initialBackoff: " + value + "}"
	case "retry.initialBindingBackoff":
		text = "retry: {maxBindingBackoff: 24h, initialBindingBackoff: " + value + "}"
	case "retry.maxBindingBackoff":
		text = "retry: {initialBindingBackoff: 1ms, maxBindingBackoff: " + value + "}"
	case "retry.maxBackoff":
		text = "retry: {initialBackoff: 1ms, maxBackoff: " + value + "}"
	}
	return &runtime.Unknown{Raw: []byte(text)}
}
