// Package stage starts playgrounds for integration tests. It has functions that create objects and
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

// Stage is the environment of one test: a playground with the CRDs, clients, and a namespace.
type Stage struct {
	*testing.T
	// Run is the running playground.
	Run *playground.Playground
	// Kube and Objects are clients without a rate limit. Objects also supports the kinds of
	// reprieve.dev.
	Kube    kubernetes.Interface
	Objects client.Client
	// Namespace is the namespace for the objects of the test.
	Namespace string
	// kubernetes is the version of the API server.
	kubernetes playground.Kubernetes
	// Groups is the API for the PodGroups of the test.
	Groups GroupAPI
	// Explain returns more text for the description of a failure. It may be nil.
	Explain func() string
	// explained is true if the failure has been described.
	explained bool
	// begun is the start time of the test. audited is the size of the audit log at this time, in
	// bytes. repeated maps the name of a scheduler to its number of repeated plans before the test.
	begun    time.Time
	audited  int64
	repeated map[string]float64
}

// New starts a playground that ends with the test. It sets the directory of the binaries and the
// CRDs in the options. The test uses the namespace default.
func New(t *testing.T, options playground.Options) *Stage {
	t.Helper()
	s := on(t, playgroundtest.Start(t, complete(t, options)))
	t.Cleanup(s.explain)
	t.Cleanup(s.plansHold)
	t.Cleanup(s.settles)
	return s
}

// Start starts a playground that ends with the test, and returns no Stage. It is for tests that
// start the scheduler themselves. At the end, the test fails if the scheduler does not stop
// writing. If the options have an audit policy, the policy must record all writes.
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

// complete returns the options with the directory of the binaries, the CRDs and other common
// settings.
func complete(t testing.TB, options playground.Options) playground.Options {
	t.Helper()
	options.BinDir = playgroundtest.BinDir(t, append(playgroundtest.ControlPlane(), "reprieve-scheduler")...)
	// Switch the native workload API off on versions of Kubernetes that lack it. Tests that also
	// run on these versions do not need it.
	options.NativeWorkloadAPI = options.NativeWorkloadAPI && Kubernetes(t).WorkloadAPI != ""
	options.CRDs = crds.FS
	options.AuditPolicy = auditPolicy
	options.Scheduler.Args = append(options.Scheduler.Args, SchedulerArgs()...)
	return options
}

// on returns a Stage for a playground. It creates the clients.
func on(t *testing.T, run *playground.Playground) *Stage {
	t.Helper()
	config := run.RESTConfig()
	config.QPS = -1
	// Use protobuf, which is cheaper than JSON, because tests poll often.
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

// For returns a copy of the Stage for another test, such as a subtest.
func (s *Stage) For(t *testing.T) *Stage {
	t.Helper()
	out := *s
	out.T, out.explained, out.audited, out.begun = t, false, s.auditSize(), time.Now()
	return &out
}

// With returns a copy of the Stage with another API for PodGroups.
func (s *Stage) With(groups GroupAPI) *Stage {
	out := *s
	out.Groups = groups
	return &out
}

// In returns a copy of the Stage for another test, with a new namespace. The objects in the
// namespace and its nodes are deleted after the test.
func (s *Stage) In(t *testing.T) *Stage {
	t.Helper()
	out := s.For(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	out.Create(namespace)
	out.Namespace = namespace.Name
	t.Cleanup(out.clear)
	// The API server rejects pods in a new namespace until its default service account exists.
	out.Eventually("the default service account exists", func(ctx context.Context) string {
		if _, err := s.Kube.CoreV1().ServiceAccounts(out.Namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return out
}

// ApplyText applies manifests in YAML.
func (s *Stage) ApplyText(manifests string) {
	s.Helper()
	var files fs.FS = fstest.MapFS{"manifests.yaml": {Data: []byte(manifests)}}
	if err := s.Run.Apply(s.Context(), files); err != nil {
		s.Fatalf("apply: %v", err)
	}
}

// ApplyExample applies a file in examples/. replace has pairs of an old and a new text.
func (s *Stage) ApplyExample(file string, replace ...string) {
	s.Helper()
	raw, err := os.ReadFile(filepath.Join(playgroundtest.ModuleRoot(s), "examples", file))
	if err != nil {
		s.Fatal(err)
	}
	s.ApplyText(strings.NewReplacer(replace...).Replace(string(raw)))
}
