package inventory_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/inventory"
)

func example(t *testing.T) *inventory.Inventory {
	t.Helper()
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{"who": "alice", "kubernetes.io/config.mirror": "x", "pod-group-name": "train"}},
			Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "registry.example/secret"}}, Volumes: []corev1.Volume{
				{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password"}}},
				{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			}},
			Status: corev1.PodStatus{PodIP: "10.1.2.3"},
		}
	}
	in, err := inventory.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).With(
		inventory.Change{Resource: inventory.Pods, Object: pod("b")}, inventory.Change{Resource: inventory.Pods, Object: pod("a")})
	if err != nil {
		t.Fatal(err)
	}
	in.Configuration = "apiVersion: v1\n"
	return in
}

func written(t *testing.T, in *inventory.Inventory) string {
	t.Helper()
	var out bytes.Buffer
	if err := inventory.Write(&out, in); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestFileKeepsAll checks that a snapshot file that is read and written again has the same bytes.
func TestFileKeepsAll(t *testing.T) {
	t.Parallel()
	first := written(t, example(t))
	in, err := inventory.Read(strings.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	if again := written(t, in); again != first {
		t.Errorf("It is written as\n%s\nand was\n%s", again, first)
	}
	if pods := in.Objects(inventory.Pods); len(pods) != 2 || pods[0].Name != "a" || in.Configuration == "" {
		t.Errorf("The file has %d pods, beginning with %q, and the configuration %q", len(pods), pods[0].Name, in.Configuration)
	}
}

// TestVersions checks that an Inventory with roots is written in FileVersion, and an Inventory
// without roots in OlderVersion. Read must accept both files.
func TestVersions(t *testing.T) {
	t.Parallel()
	for version, in := range map[string]*inventory.Inventory{
		inventory.OlderVersion: example(t), inventory.FileVersion: example(t).WithRoots(nil),
	} {
		text := written(t, in)
		read, err := inventory.Read(strings.NewReader(text))
		if err != nil || !strings.Contains(text, version) {
			t.Fatalf("error %v, reading %s", err, text)
		}
		if _, asked := read.Roots(); asked != (version == inventory.FileVersion) {
			t.Errorf("of version %s, it says %t of whether such objects were asked for", version, asked)
		}
	}
}

func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	whole := written(t, example(t))
	for name, c := range map[string]struct{ text, want string }{
		"empty":                 {"", "is empty"},
		"cut off":               {whole[:len(whole)/2], "is cut off"},
		"cut off by one byte":   {whole[:len(whole)-2], "is cut off"},
		"of another version":    {strings.Replace(whole, inventory.OlderVersion, "snapshot.reprieve.dev/v9", 1), `"snapshot.reprieve.dev/v9"`},
		"something else":        {`{"kind":"Pod"}`, `its kind is "Pod"`},
		"no JSON":               {"apiVersion: v1", "no JSON at byte 1"},
		"an object is missing":  {strings.Replace(whole, `"pods":2`, `"pods":3`, 1), "says that there are 3"},
		"a field of a bad type": {strings.Replace(whole, `"objects":{`, `"objects":[`, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := inventory.Read(strings.NewReader(c.text))
			var broken *inventory.FileError
			if !errors.As(err, &broken) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
		})
	}
}

// TestRedact checks that redaction removes personal data and keeps the fields that decisions depend
// on.
func TestRedact(t *testing.T) {
	t.Parallel()
	redacted, err := inventory.Redact(example(t), "pod-group-name")
	if err != nil {
		t.Fatal(err)
	}
	text := written(t, redacted)
	for _, secret := range []string{"alice", "registry.example", "10.1.2.3", "password"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is still in it", secret)
		}
	}
	for _, needed := range []string{"config.mirror", "pod-group-name", `"nodeName":"node"`, `"name":"a"`, `"claimName":"data"`, `"redacted":true`} {
		if !strings.Contains(text, needed) {
			t.Errorf("%q is missing", needed)
		}
	}
}
