// Package stage is a playground for tests, with what integration tests ask of it: objects to apply, and conditions to
// wait for.
package stage

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/deploy/crds"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
)

// Stage is a playground with the CRDs, for one test.
type Stage struct {
	*testing.T
	// Run is the playground.
	Run *playground.Playground
	// Kube and Objects are not limited in their rate. Objects serves the types of reprieve.dev as well.
	Kube    kubernetes.Interface
	Objects client.Client
	// Namespace is where the test has its objects.
	Namespace string
	// kubernetes is what its API server is.
	kubernetes playground.Kubernetes
	// Groups is the API whose PodGroups the test is about.
	Groups GroupAPI
	// Explain adds to what is shown of a failure. It may be nil.
	Explain func() string
	// explained is set where it has been shown.
	explained bool
	// begun is when the test began, and repeated how many plans there had been by then that could not be carried out twice.
	begun    time.Time
	repeated map[string]float64
}

// New starts a playground, which ends with the test. Directory of binaries and CRDs are filled in. The test has the
// default namespace.
func New(t *testing.T, options playground.Options) *Stage {
	t.Helper()
	s := on(t, playgroundtest.Start(t, complete(t, options)))
	t.Cleanup(s.explain)
	t.Cleanup(s.plansHold)
	t.Cleanup(s.settles)
	return s
}

// Start starts a playground that has no Stage, as for a test that runs the scheduler in a way of its own. It ends with the test, which
// fails where what schedules there does not come to rest. The options may have an audit policy that records all writes.
func Start(t *testing.T, options playground.Options) *playground.Playground {
	t.Helper()
	if options.AuditPolicy == "" {
		options.AuditPolicy = auditPolicy
	}
	run := playgroundtest.Start(t, options)
	s := &Stage{T: t, Run: run, begun: time.Now()}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if err := s.comeToRest(); err != nil {
			t.Error(err)
		}
	})
	return run
}

// complete fills in the directory of binaries, and the CRDs.
func complete(t testing.TB, options playground.Options) playground.Options {
	t.Helper()
	options.BinDir = playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...)
	// What runs on every version of Kubernetes does without where there is none.
	options.NativeWorkloadAPI = options.NativeWorkloadAPI && Kubernetes(t).WorkloadAPI != ""
	options.CRDs = crds.FS
	options.AuditPolicy = auditPolicy
	options.Scheduler.Args = append(options.Scheduler.Args, SchedulerArgs()...)
	return options
}

// on makes the clients for a playground.
func on(t *testing.T, run *playground.Playground) *Stage {
	t.Helper()
	config := run.RESTConfig()
	config.QPS = -1
	// Tests look often, which is cheaper so.
	cheap := rest.CopyConfig(config)
	cheap.ContentType = runtime.ContentTypeProtobuf
	kube, err := kubernetes.NewForConfig(cheap)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &Stage{T: t, Run: run, Kube: kube, Objects: objects, Namespace: metav1.NamespaceDefault, kubernetes: Kubernetes(t), Groups: ReprieveGroups(), begun: time.Now()}
}

// For is the same for another test, such as a subtest.
func (s *Stage) For(t *testing.T) *Stage {
	t.Helper()
	out := *s
	out.T, out.explained, out.begun = t, false, time.Now()
	return &out
}

// With is the same for the PodGroups of another API.
func (s *Stage) With(groups GroupAPI) *Stage {
	out := *s
	out.Groups = groups
	return &out
}

// In is the same for another test, in a namespace of its own. What is there goes with the test, and so do its nodes.
func (s *Stage) In(t *testing.T) *Stage {
	t.Helper()
	out := s.For(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	out.Create(namespace)
	out.Namespace = namespace.Name
	t.Cleanup(out.clear)
	// Pods are admitted only where the default service account exists.
	out.Eventually("the default service account exists", func(ctx context.Context) string {
		if _, err := s.Kube.CoreV1().ServiceAccounts(out.Namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return out
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
