package krew

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

func TestManifest(t *testing.T) {
	t.Parallel()
	r := &product.Release{Version: "v0.2.0", Commit: "0123abc", Date: time.Unix(1, 0), Registry: "registry.example/reprieve"}
	raw, err := Manifest(r, []Archive{
		{Name: "kubectl-reprieve_v0.2.0_darwin_arm64.tar.gz", SHA256: "aa", Platform: product.Platform{OS: "darwin", Arch: "arm64"}, License: "LICENSE"},
		{Name: "kubectl-reprieve_v0.2.0_windows_amd64.zip", SHA256: "bb", Platform: product.Platform{OS: "windows", Arch: "amd64"}, License: "LICENSE"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got manifest
	if err := yaml.UnmarshalStrict(raw, &got); err != nil {
		t.Fatal(err)
	}
	const address = "https://github.com/reprieve-dev/reprieve/releases/download/v0.2.0/"
	want := []platform{
		{
			selector{map[string]string{"os": "darwin", "arch": "arm64"}}, address + "kubectl-reprieve_v0.2.0_darwin_arm64.tar.gz", "aa",
			"kubectl-reprieve", []file{{"kubectl-reprieve", "."}, {"LICENSE", "."}},
		},
		{
			selector{map[string]string{"os": "windows", "arch": "amd64"}}, address + "kubectl-reprieve_v0.2.0_windows_amd64.zip", "bb",
			"kubectl-reprieve.exe", []file{{"kubectl-reprieve.exe", "."}, {"LICENSE", "."}},
		},
	}
	if diff := cmp.Diff(want, got.Spec.Platforms); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || got.Kind != "Plugin" {
		t.Errorf("it is %s of %s", got.Kind, got.APIVersion)
	}
	if got.Metadata.Name+".yaml" != File || got.Spec.Version != "v0.2.0" {
		t.Errorf("it is %s of %s", got.Metadata.Name, got.Spec.Version)
	}
}

// TestWords checks that the summary and the description comply with the rules of krew's index.
func TestWords(t *testing.T) {
	t.Parallel()
	if len(summary) > 55 || strings.HasSuffix(summary, ".") || strings.Contains(strings.ToLower(summary), "kubectl") {
		t.Errorf("the summary is %q", summary)
	}
	for line := range strings.Lines(description + caveats) {
		if len(line) > 81 {
			t.Errorf("a line is longer than 80: %q", line)
		}
	}
}
