// Package stage provides playgrounds for integration tests, with functions to apply objects and to
// wait for conditions.
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
	// Kube and Objects have no rate limit. Objects also serves the types of reprieve.dev.
	Kube    kubernetes.Interface
	Objects client.Client
	// Namespace is the namespace of the test's objects.
	Namespace string
	// kubernetes is the version of the API server.
	kubernetes playground.Kubernetes
	// Groups is the API of the test's PodGroups.
	Groups GroupAPI
	// Explain adds to the description of a failure. It may be nil.
	Explain func() string
	// explained is true once the failure was described.
	explained bool
	// begun is the start of the test. repeated is the number of repeated plans of each scheduler by
	// then.
	begun    time.Time
	repeated map[string]float64
}

// New starts a playground that ends with the test. It sets the directory of binaries and the CRDs.
// The test uses the default namespace.
func New(t *testing.T, options playground.Options) *Stage {
	t.Helper()
	s := on(t, playgroundtest.Start(t, complete(t, options)))
	t.Cleanup(s.explain)
	t.Cleanup(s.plansHold)
	t.Cleanup(s.settles)
	return s
}

// Start starts a playground without a Stage, for a test that runs the scheduler in its own way. The
// playground ends with the test. The test fails if the scheduler there does not come to rest. The
// options may have an audit policy that records all writes.
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

// complete sets the directory of binaries and the CRDs, among other options.
func complete(t testing.TB, options playground.Options) playground.Options {
	t.Helper()
	options.BinDir = playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...)
	// Tests that run on every version of Kubernetes do not need the API in versions without it.
	options.NativeWorkloadAPI = options.NativeWorkloadAPI && Kubernetes(t).WorkloadAPI != ""
	options.CRDs = crds.FS
	options.AuditPolicy = auditPolicy
	options.Scheduler.Args = append(options.Scheduler.Args, SchedulerArgs()...)
	return options
}

// on creates the clients for a playground.
func on(t *testing.T, run *playground.Playground) *Stage {
	t.Helper()
	config := run.RESTConfig()
	config.QPS = -1
	// Tests poll often, and protobuf makes that cheaper.
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

// For returns the Stage for another test, such as a subtest.
func (s *Stage) For(t *testing.T) *Stage {
	t.Helper()
	out := *s
	out.T, out.explained, out.begun = t, false, time.Now()
	return &out
}

// With returns the Stage for the PodGroups of another API.
func (s *Stage) With(groups GroupAPI) *Stage {
	out := *s
	out.Groups = groups
	return &out
}

// In returns the Stage for another test, with a new namespace. The objects in the namespace and its
// nodes are removed with the test.
func (s *Stage) In(t *testing.T) *Stage {
	t.Helper()
	out := s.For(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	out.Create(namespace)
	out.Namespace = namespace.Name
	t.Cleanup(out.clear)
	// The API server admits pods only once the default service account exists.
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

// ApplyExample applies a file under examples/, with pairs of words to replace.
func (s *Stage) ApplyExample(file string, replace ...string) {
	s.Helper()
	raw, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(s), "examples", file))
	if err != nil {
		s.Fatal(err)
	}
	s.ApplyText(strings.NewReplacer(replace...).Replace(string(raw)))
}
