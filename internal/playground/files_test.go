package playground

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/client-go/rest"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func playgroundKubeconfig(t *testing.T, host string) string {
	t.Helper()
	raw, err := encodeKubeconfig(&rest.Config{Host: "https://" + host, BearerToken: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestCheckKubeconfigTarget(t *testing.T) {
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	gone := (&net.TCPAddr{IP: net.ParseIP(loopback), Port: port}).String()
	dir := t.TempDir()
	elsewhere := strings.ReplaceAll(playgroundKubeconfig(t, gone), loopback, "192.0.2.1")
	for name, test := range map[string]struct{ path, want string }{
		"nothing there":           {filepath.Join(dir, "new"), ""},
		"a playground's leftover": {write(t, filepath.Join(dir, "stale"), playgroundKubeconfig(t, gone)), ""},
		"a running playground's":  {write(t, filepath.Join(dir, "running"), playgroundKubeconfig(t, listener.Addr().String())), "that is running"},
		"somebody else's":         {write(t, filepath.Join(dir, "else"), "apiVersion: v1\nkind: Config\n"), "exists already"},
		"another machine's":       {write(t, filepath.Join(dir, "machine"), elsewhere), "exists already"},
		"no kubeconfig at all":    {write(t, filepath.Join(dir, "letter"), "Dear reader,"), "exists already"},
		"a directory":             {dir, "is a directory"},
		"no such directory":       {filepath.Join(dir, "no", "file"), "no such file or directory"},
	} {
		err := checkKubeconfigTarget(t.Context(), test.path)
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

func TestRemoveFileIfSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for name, test := range map[string]struct {
		content string
		stays   bool
	}{"ours": {"ours", false}, "replaced": {"theirs", true}} {
		write(t, path, test.content)
		if err := removeFileIfSame(path, []byte("ours")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); (err == nil) != test.stays {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := removeFileIfSame(filepath.Join(t.TempDir(), "none"), nil); err != nil {
		t.Errorf("a file that is gone: %v", err)
	}
}

func TestReadLogTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	earlier := "old\n"
	write(t, path, earlier+"one\ntwo\n"+strings.Repeat("x", 2*logLineBytes)+"\nlast\n")
	tail, err := readLogTail(path, int64(len(earlier)), 3)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"two", strings.Repeat("x", logLineBytes) + "...", "last"}; !slices.Equal(tail, want) {
		t.Errorf("got %q, want %q", tail, want)
	}
	if tail, err = readLogTail(path, int64(len(earlier)), 100); err != nil || tail[0] != "one" {
		t.Errorf("got %q, %v, want what came after the earlier run", tail, err)
	}
	write(t, path, strings.Repeat("line\n", logTailBytes))
	if tail, err = readLogTail(path, 0, 2); err != nil || !slices.Equal(tail, []string{"line", "line"}) {
		t.Errorf("of a long log: %q, %v", tail, err)
	}
	if tail, err = readLogTail(write(t, path, ""), 0, 2); err != nil || len(tail) != 0 {
		t.Errorf("of an empty log: %q, %v", tail, err)
	}
}

func TestChildEnv(t *testing.T) {
	env := map[string]string{"PATH": "/bin", "HOME": "/users", "ETCD_NAME": "other", "KUBECONFIG": "/users/config"}
	got := childEnv(func(name string) (string, bool) { value, ok := env[name]; return value, ok }, "/data/home", "/data/tmp")
	if want := []string{"HOME=/data/home", "TMPDIR=/data/tmp", "PATH=/bin"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFindBinary(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "plain"), "")
	tool := write(t, filepath.Join(other, "tool"), "")
	if err := os.Chmod(tool, 0o700); err != nil { //nolint:gosec // it is to be executable
		t.Fatal(err)
	}
	found, err := newBinaries(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"absent", "plain", "sh"} {
		path, err := found.find(name)
		want := "the binary " + name + " is not in " + dir + "; `make build` makes it"
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %s, error %v, want %s", name, path, err, want)
		}
	}
	found.dirs = append(found.dirs, other)
	if path, err := found.find("tool"); err != nil || path != tool {
		t.Errorf("got %s, %v, want %s", path, err, tool)
	}
	if found, err = newBinaries(""); err != nil {
		t.Fatal(err)
	}
	if path, err := found.find("sh"); err != nil || filepath.Base(path) != "sh" {
		t.Errorf("from PATH: got %s, %v", path, err)
	}
}

func TestReadManifestsRefusesFragments(t *testing.T) {
	for name, content := range map[string]string{
		"no name":  "apiVersion: v1\nkind: ConfigMap\n",
		"no kind":  "apiVersion: v1\nmetadata: {name: a}\n",
		"not YAML": "a: b: c",
	} {
		if objects, err := readManifests(fstest.MapFS{"a.yaml": {Data: []byte(content)}}); err == nil || !strings.Contains(err.Error(), "a.yaml") {
			t.Errorf("%s: got %v, error %v, want one that names the file", name, objects, err)
		}
	}
}

func TestSchedulerConfig(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "ours"), `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 7}
leaderElection: {resourceName: other}
profiles: [{schedulerName: a}]
`)
	raw, config, err := readSchedulerConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	if lease := config.lease(); lease == nil || lease.Name != "other" || lease.Namespace != "kube-system" {
		t.Errorf("lease %v, want kube-system/other", lease)
	}
	if raw, err = withKubeconfig(raw, "/some/where"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubeconfig: /some/where", "qps: 7", "schedulerName: a", "resourceName: other"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%q is not in\n%s", want, raw)
		}
	}
	_, config, err = readSchedulerConfig(write(t, path, "kind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}\n"))
	if err != nil || config.lease() != nil {
		t.Errorf("lease %v, error %v, want no lease without leader election", config.lease(), err)
	}
	for content, want := range map[string]string{"kind: Pod": `its kind is "Pod"`, "a: b: c": "error converting YAML"} {
		if _, _, err := readSchedulerConfig(write(t, path, content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", content, err, want)
		}
	}
	if _, _, err := readSchedulerConfig(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there is read")
	}
}

func TestBuildNodes(t *testing.T) {
	nodes := buildNodes([]NodeGroup{
		{Count: 2},
		{Prefix: "gpu", Count: 1, Labels: map[string]string{"topology.kubernetes.io/zone": "mine"}},
		{Count: 1},
	}, "v1")
	var names, addresses []string
	for _, node := range nodes {
		names = append(names, node.Name+"/"+node.Labels["topology.kubernetes.io/zone"])
		addresses = append(addresses, node.Status.Addresses[0].Address)
	}
	if want := []string{"node-0/zone-a", "node-1/zone-b", "gpu-0/mine", "node-2/zone-a"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	slices.Sort(addresses)
	if len(slices.Compact(addresses)) != len(nodes) {
		t.Errorf("addresses %v are not all different", addresses)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, options := range map[string]Options{
		"it must be 0 or more":  {NodeGroups: []NodeGroup{{Count: -1}}},
		"no such component":     {ExtraArgs: map[string][]string{"kubelet": {"-v=3"}}},
		"no scheduler is to be": {Scheduler: SchedulerOptions{Path: NoScheduler, Config: "file"}},
		"not an executable":     {Scheduler: SchedulerOptions{Path: "/does/not/exist"}, BinDir: binariesOfNothing(t)},
	} {
		p, err := Start(t.Context(), options)
		if err == nil {
			t.Fatalf("want %q, got %v", want, p.Stop())
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// binariesOfNothing returns a directory that has all binaries of a control plane. The binaries are
// scripts that do nothing.
func binariesOfNothing(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{Etcd, APIServer, ControllerManager, Kwok} {
		path := write(t, filepath.Join(dir, name), "#!/bin/sh\n")
		if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // it is to be executable
			t.Fatal(err)
		}
	}
	return dir
}
