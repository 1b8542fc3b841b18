package product

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func release(version string) *Release {
	return &Release{Version: version, Commit: "0123abc", Date: time.Unix(1, 0), Registry: "registry.example/reprieve"}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, valid := range map[string]bool{
		"v0.2.0": true, "v1.0.0-rc.1": true, "v0.0.0-test": true,
		"0.2.0": false, "v0.2": false, "v0.2.0+abc": false, "v0.1.0-dev+abc-dirty": false, "": false, "latest": false, "v01.2.3": false,
	} {
		if err := release(version).Check(); (err == nil) != valid {
			t.Errorf("%q: %v, want it to be valid: %t", version, err, valid)
		}
	}
	for version, want := range map[string]bool{"v0.2.0": false, "v0.2.0-rc.1": true} {
		if got := release(version).Prerelease(); got != want {
			t.Errorf("%s is a pre-release: %t, want %t", version, got, want)
		}
	}
}

func TestIncomplete(t *testing.T) {
	t.Parallel()
	for want, leaveOut := range map[string]func(*Release){
		"commit":        func(r *Release) { r.Commit = "" },
		"time":          func(r *Release) { r.Date = time.Time{} },
		"registry is":   func(r *Release) { r.Registry = "" },
		`"example.org/`: func(r *Release) { r.Registry = "example.org/" },
	} {
		r := release("v0.2.0")
		leaveOut(r)
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something of %q", err, want)
		}
	}
}

// TestNames checks the file names in a release. Users and their scripts depend on these names.
func TestNames(t *testing.T) {
	t.Parallel()
	var got []string
	for _, p := range Products() {
		for _, on := range p.Platforms {
			got = append(got, p.ArchiveName(release("v0.2.0"), on))
		}
	}
	want := []string{
		"reprieve-scheduler_v0.2.0_linux_amd64.tar.gz",
		"reprieve-scheduler_v0.2.0_linux_arm64.tar.gz",
		"kubectl-reprieve_v0.2.0_linux_amd64.tar.gz",
		"kubectl-reprieve_v0.2.0_linux_arm64.tar.gz",
		"kubectl-reprieve_v0.2.0_darwin_amd64.tar.gz",
		"kubectl-reprieve_v0.2.0_darwin_arm64.tar.gz",
		"kubectl-reprieve_v0.2.0_windows_amd64.zip",
		"kubectl-reprieve_v0.2.0_windows_arm64.zip",
		"reprieve-playground_v0.2.0_linux_amd64.tar.gz",
		"reprieve-playground_v0.2.0_linux_arm64.tar.gz",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	amd, mac, other := Platform{"linux", "amd64"}, Platform{"darwin", "arm64"}, Platform{"plan9", "386"}
	for name, tc := range map[string]struct {
		names     []string
		platforms []Platform
		want      []string
		wantErr   string
	}{
		"one of each":          {nil, []Platform{amd}, []string{"reprieve-scheduler[linux/amd64]", "kubectl-reprieve[linux/amd64]", "playground[linux/amd64]"}, ""},
		"what there is for it": {nil, []Platform{mac}, []string{"kubectl-reprieve[darwin/arm64]"}, ""},
		"by name":              {[]string{Scheduler}, nil, []string{"reprieve-scheduler[linux/amd64 linux/arm64]"}, ""},
		"an unknown name":      {[]string{"kubelet"}, nil, nil, `"kubelet" is not among`},
		"an unknown platform":  {nil, []Platform{other}, nil, "nothing is released for [plan9/386]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			some, err := Select(Products(), tc.names, tc.platforms)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range some {
				var on []string
				for _, platform := range p.Platforms {
					on = append(on, platform.String())
				}
				got = append(got, p.Name+"["+strings.Join(on, " ")+"]")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if Complete(some) {
				t.Error("it passes for a whole release")
			}
		})
	}
	if !Complete(Products()) {
		t.Error("a whole release does not pass for one")
	}
}

func TestParsePlatform(t *testing.T) {
	t.Parallel()
	for s, valid := range map[string]bool{"linux/amd64": true, "linux": false, "/amd64": false, "linux/": false, "linux/arm/v7": false} {
		got, err := ParsePlatform(s)
		if (err == nil) != valid || valid && got.String() != s {
			t.Errorf("%q is %v, %v", s, got, err)
		}
	}
}
