package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

const (
	release = "reprieve"
	// lastRelease is the packed chart that the tests upgrade from. No release exists yet, so it is
	// the first version of the chart in this repository. Its Queues lack the fields about permitted
	// users, and it has no derived groups. Its Pods run the current scheduler. `make last-release
	// RELEASE=<tag>` replaces it by the chart of a release.
	lastRelease = "testdata/last-release.tgz"
)

// helm runs the helm command on a cluster. It also runs the Pods of the release, like a kubelet.
type helm struct {
	*kubelet
	path, home string
	// meanwhile is called repeatedly while a helm command runs.
	meanwhile func(t *testing.T)
}

// startHelm starts a cluster without Reprieve. pools maps the name of a pool to its number of
// nodes. The Pods of the release run on the node of the given pool.
func startHelm(t *testing.T, pools map[string]int, pool string) *helm {
	t.Helper()
	path := filepath.Join(playgroundtest.BinDir(t), "helm")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the binary helm is missing (%v): run `make bin/helm`, which `make build` does not", err)
	}
	return &helm{
		kubelet: &kubelet{cluster: startBare(t, pools, playground.Options{}), pool: pool, running: map[types.UID]*playground.Component{}},
		path:    path, home: t.TempDir(), meanwhile: func(*testing.T) {},
	}
}

// chartPath returns the path of the current chart.
func chartPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(playgroundtest.ModuleRoot(t), "charts", "reprieve")
}

func (h *helm) command(t *testing.T, output io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), h.path, append(args, "--namespace", namespace)...)
	command.Env = append(os.Environ(), "HOME="+h.home, "KUBECONFIG="+h.playground.Kubeconfig())
	for _, variable := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		command.Env = append(command.Env, variable+"="+filepath.Join(h.home, variable))
	}
	command.Stdout, command.Stderr = output, output
	return command
}

// try runs a helm command and returns its output. It also runs the Pods of the release, and returns
// after they have settled.
func (h *helm) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var output bytes.Buffer
	command := h.command(t, &output, args...)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			h.settle(t)
			return output.String(), err
		case <-tick.C:
			h.meanwhile(t)
			h.tick(t)
		}
	}
}

func (h *helm) run(t *testing.T, args ...string) {
	t.Helper()
	if output, err := h.try(t, args...); err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

// installed returns the objects of the installed release.
func (h *helm) installed(t *testing.T) manifests {
	t.Helper()
	var output bytes.Buffer
	if err := h.command(t, &output, "get", "manifest", release).Run(); err != nil {
		t.Fatalf("%v: %s", err, output.String())
	}
	decoder := yaml.NewYAMLOrJSONDecoder(&output, 4096)
	var out manifests
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
}

// stream sets meanwhile to a function that creates one short-lived pod after the other.
func (h *helm) stream(pool string) {
	next := 0
	h.meanwhile = func(t *testing.T) {
		t.Helper()
		h.create(t, newPod(fmt.Sprintf("stream-%d", next), pool, low, asks(corev1.ResourceCPU, "50m"), func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{playground.RunForAnnotation: "1s"}
		}))
		next++
	}
}

// createNamespace creates the namespace of the release as the chart's README describes.
func (h *helm) createNamespace(t *testing.T) {
	t.Helper()
	h.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})
}

// queueField returns a field of a Queue's spec in JSON, or "" if it is not set.
func (c *cluster) queueField(ctx context.Context, queue, field string) (string, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("reprieve.dev/v1alpha1")
	object.SetKind("Queue")
	if err := c.Get(ctx, types.NamespacedName{Name: queue}, object); err != nil {
		return "", err
	}
	value, _, err := unstructured.NestedString(object.Object, "spec", field)
	return value, err
}
