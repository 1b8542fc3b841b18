package toleration

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// patience bounds every wait.
const patience = time.Minute

// stage is a playground of two nodes with 8 GPUs each, for one example.
type stage struct {
	t       *testing.T
	run     *playground.Playground
	kube    kubernetes.Interface
	example string
}

func newStage(t *testing.T, example string) *stage {
	t.Helper()
	bin := playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...)
	run := playgroundtest.Start(t, playground.Options{
		BinDir: bin, CRDs: crds.FS,
		NodeGroups: []playground.NodeGroup{{Count: 2, Resources: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("64"),
			corev1.ResourceMemory: resource.MustParse("512Gi"),
			"nvidia.com/gpu":      resource.MustParse("8"),
		}}},
	})
	config := rest.CopyConfig(run.RESTConfig())
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &stage{t: t, run: run, kube: kube, example: filepath.Join(playgroundtest.ModuleRoot(t), "examples", example)}
}

// apply applies a file of the example, with words replaced in pairs.
func (s *stage) apply(file string, replace ...string) {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.example, file))
	if err != nil {
		s.t.Fatal(err)
	}
	var files fs.FS = fstest.MapFS{file: {Data: []byte(strings.NewReplacer(replace...).Replace(string(raw)))}}
	if err := s.run.Apply(s.t.Context(), files); err != nil {
		s.t.Fatalf("apply %s: %v", file, err)
	}
}

// eventually waits until condition returns "".
func (s *stage) eventually(what string, condition func(ctx context.Context) string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	last := ""
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		now := condition(ctx)
		if ctx.Err() == nil {
			last = now
		}
		return now == "", nil
	}); err != nil {
		s.t.Fatalf("%s: %s", what, last)
	}
}

// pods are the pods whose names start so, terminating ones left out.
func (s *stage) pods(ctx context.Context, prefix string) []corev1.Pod {
	list, err := s.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		s.t.Log(err)
		return nil
	}
	var out []corev1.Pod
	for _, pod := range list.Items {
		if strings.HasPrefix(pod.Name, prefix) && pod.DeletionTimestamp == nil {
			out = append(out, pod)
		}
	}
	return out
}

// runs waits until that many pods run.
func (s *stage) runs(prefix string, count int) {
	s.t.Helper()
	s.eventually(prefix+" runs", func(ctx context.Context) string {
		running := 0
		for _, pod := range s.pods(ctx, prefix) {
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != count {
			return "not yet"
		}
		return ""
	})
}

// gone waits until a pod does not exist any more.
func (s *stage) gone(name string) {
	s.t.Helper()
	s.eventually(name+" goes", func(ctx context.Context) string {
		_, err := s.kube.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return "it is still there"
	})
}

// waitsSaying waits until a pending pod's condition has all of the words.
func (s *stage) waitsSaying(name string, words ...string) {
	s.t.Helper()
	s.eventually(name+" waits and says why", func(ctx context.Context) string {
		pod, err := s.kube.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
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

func TestNotPreempted(t *testing.T) {
	t.Parallel()
	s := newStage(t, "not-preempted")
	s.apply("01-priorities.yaml")
	s.apply("02-running.yaml")
	s.runs("resumable", 1)
	s.runs("not-resumable", 1)
	s.apply("03-urgent.yaml")
	s.gone("resumable")
	s.runs("urgent", 1)
	s.apply("04-urgent-too.yaml")
	s.waitsSaying("urgent-too", "preemption: ", "1 unit of lower priority is protected")
	if n := len(s.pods(t.Context(), "not-resumable")); n != 1 {
		t.Errorf("not-resumable was preempted by a priority that it tolerates")
	}
	s.apply("05-critical.yaml")
	s.gone("not-resumable")
	s.runs("critical", 1)
	if n := len(s.pods(t.Context(), "urgent")); n != 2 {
		t.Errorf("%d of urgent and urgent-too are left, want both", n)
	}
}

func TestGuaranteedMinutes(t *testing.T) {
	t.Parallel()
	s := newStage(t, "guaranteed-minutes")
	const guaranteed = 20 * time.Second
	s.apply("01-priorities.yaml", `"600"`, `"20"`)
	s.apply("02-training.yaml")
	s.runs("training", 2)
	s.apply("03-urgent.yaml")
	s.waitsSaying("urgent", "waits until", "default/training (PreemptionToleration)")
	var latest time.Time
	for _, pod := range s.pods(t.Context(), "training") {
		if pod.Status.StartTime != nil && pod.Status.StartTime.After(latest) {
			latest = pod.Status.StartTime.Time
		}
	}
	if n := len(s.pods(t.Context(), "training")); n != 2 {
		t.Fatalf("%d members of training are left within their time, want 2", n)
	}
	s.runs("urgent", 1)
	pod, err := s.kube.CoreV1().Pods("default").Get(t.Context(), "urgent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled {
			continue
		}
		if ran := c.LastTransitionTime.Sub(latest); ran < guaranteed-time.Second {
			t.Errorf("training had %v, want %v", ran, guaranteed)
		}
	}
}
