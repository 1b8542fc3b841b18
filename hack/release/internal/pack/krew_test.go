package pack

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/hack/release/internal/binary"
	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

// testKrew installs the plugin with the steps of krew: it downloads an archive, checks the
// checksum, extracts the files and runs the plugin.
func testKrew(t *testing.T, files map[string][]byte) {
	var manifest struct {
		Spec struct {
			Platforms []struct {
				Selector struct {
					MatchLabels map[string]string
				}
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.Unmarshal(files["reprieve.yaml"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Spec.Platforms) != 2 {
		t.Fatalf("it has %d platforms, want 2", len(manifest.Spec.Platforms))
	}
	for _, p := range manifest.Spec.Platforms {
		on := product.Platform{OS: p.Selector.MatchLabels["os"], Arch: p.Selector.MatchLabels["arch"]}
		name, ok := strings.CutPrefix(p.URI, "https://github.com/reprieve-dev/reprieve/releases/download/v0.2.0/")
		if !ok {
			t.Errorf("%s is downloaded from %s", on, p.URI)
		}
		if sum := sha256.Sum256(files[name]); hex.EncodeToString(sum[:]) != p.SHA256 {
			t.Errorf("%s has another sum than the manifest says", name)
		}
		packed := unpacked(t, name, files[name])
		installed := make(map[string]packedFile)
		for _, f := range p.Files {
			if _, ok := packed[f.From]; !ok {
				t.Errorf("%s lacks %s", name, f.From)
			}
			installed[path.Join(f.To, f.From)] = packed[f.From]
		}
		if len(installed["LICENSE"].content) == 0 {
			t.Errorf("on %s no licence is installed", on)
		}
		program, err := binary.Read(installed[p.Bin].content)
		if err != nil {
			t.Errorf("%s on %s: %v", p.Bin, on, err)
			continue
		}
		if err := program.Check(on, release().Version); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if installed[p.Bin].mode&0o111 != 0o111 {
			t.Errorf("%s has a program with the mode %o", name, installed[p.Bin].mode)
		}
	}
}
