// Package stage is a playground for one test, with what integration tests ask of it: objects to apply, and
// conditions to wait for.
package stage

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// Patience bounds every wait.
const Patience = time.Minute

// interval is the time between two looks at what is waited for.
const interval = 100 * time.Millisecond

// Stage is a playground with the CRDs, for one test.
type Stage struct {
	*testing.T
	// Run is the playground.
	Run *playground.Playground
	// Kube is not limited in its rate.
	Kube kubernetes.Interface
}

// New starts a playground, which ends with the test. Directory of binaries and CRDs are filled in.
func New(t *testing.T, options playground.Options) *Stage {
	t.Helper()
	options.BinDir = playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...)
	options.CRDs = crds.FS
	run := playgroundtest.Start(t, options)
	config := rest.CopyConfig(run.RESTConfig())
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &Stage{T: t, Run: run, Kube: kube}
}

// ApplyText applies manifests.
func (s *Stage) ApplyText(manifests string) {
	s.Helper()
	var files fs.FS = fstest.MapFS{"manifests.yaml": {Data: []byte(manifests)}}
	if err := s.Run.Apply(s.Context(), files); err != nil {
		s.Fatalf("apply: %v", err)
	}
}

// ApplyExample applies a file under examples/, with words replaced in pairs.
func (s *Stage) ApplyExample(file string, replace ...string) {
	s.Helper()
	raw, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(s), "examples", file))
	if err != nil {
		s.Fatal(err)
	}
	s.ApplyText(strings.NewReplacer(replace...).Replace(string(raw)))
}

// Eventually waits until condition returns "", and fails the test with what it returned last.
func (s *Stage) Eventually(what string, condition func(ctx context.Context) string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), Patience)
	defer cancel()
	last := ""
	if err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		now := condition(ctx)
		if ctx.Err() == nil {
			last = now
		}
		return now == "", nil
	}); err != nil {
		s.Fatalf("%s: %s", what, last)
	}
}

// Pods are the pods of the default namespace whose names start so, terminating ones left out.
func (s *Stage) Pods(ctx context.Context, prefix string) []corev1.Pod {
	list, err := s.Kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		s.Log(err)
		return nil
	}
	var out []corev1.Pod
	for i := range list.Items {
		if pod := list.Items[i]; strings.HasPrefix(pod.Name, prefix) && pod.DeletionTimestamp == nil {
			out = append(out, pod)
		}
	}
	return out
}

// Pod is one pod of the default namespace.
func (s *Stage) Pod(name string) *corev1.Pod {
	s.Helper()
	pod, err := s.Kube.CoreV1().Pods("default").Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

// Runs waits until exactly that many pods run whose names start so.
func (s *Stage) Runs(prefix string, count int) {
	s.Helper()
	s.Eventually(prefix+" runs", func(ctx context.Context) string {
		running := 0
		for _, pod := range s.Pods(ctx, prefix) {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != count {
			return strconv.Itoa(running) + " run, want " + strconv.Itoa(count)
		}
		return ""
	})
}

// Gone waits until a pod does not exist any more.
func (s *Stage) Gone(name string) {
	s.Helper()
	s.Eventually(name+" goes", func(ctx context.Context) string {
		_, err := s.Kube.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return "it is still there"
	})
}

// WaitsSaying waits until the condition of a pending pod has all of the words.
func (s *Stage) WaitsSaying(name string, words ...string) {
	s.Helper()
	s.Eventually(name+" waits and says why", func(ctx context.Context) string {
		pod, err := s.Kube.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range pod.Status.Conditions {
			if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
				continue
			}
			for _, word := range words {
				if !strings.Contains(c.Message, word) {
					return c.Message
				}
			}
			return ""
		}
		return "it has no condition"
	})
}
