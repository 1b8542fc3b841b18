package compile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprieve-dev/reprieve/hack/release/internal/product"
)

func TestSteps(t *testing.T) {
	t.Parallel()
	amd, arm, mac := product.Platform{OS: "linux", Arch: "amd64"}, product.Platform{OS: "linux", Arch: "arm64"}, product.Platform{OS: "darwin", Arch: "arm64"}
	one, two, three := product.Binary{Name: "one"}, product.Binary{Name: "two"}, product.Binary{Name: "three"}
	got := Steps([]product.Product{
		{Binaries: []product.Binary{one}, Platforms: []product.Platform{amd, arm}},
		{Binaries: []product.Binary{two}, Platforms: []product.Platform{amd, mac}},
		{Binaries: []product.Binary{three, one}, Platforms: []product.Platform{amd}},
	})
	want := []Step{{one, amd}, {two, amd}, {three, amd}, {one, arm}, {two, mac}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	for on, want := range map[product.Platform]string{
		{OS: "linux", Arch: "arm64"}:   "out/linux_arm64/kubectl-reprieve",
		{OS: "windows", Arch: "amd64"}: "out/windows_amd64/kubectl-reprieve.exe",
	} {
		if got := Path("out", product.Binary{Name: "kubectl-reprieve"}, on); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
