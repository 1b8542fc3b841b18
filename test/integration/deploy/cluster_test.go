package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/playground"
	"github.com/reprieve-dev/reprieve/internal/playground/playgroundtest"
	"github.com/reprieve-dev/reprieve/test/integration/stage"
)

const (
	patience = 60 * time.Second
	interval = 100 * time.Millisecond
)

// poolLabel is a node label. Its value is the name of the test that uses the node.
const poolLabel = "example.com/pool"

// cluster is a playground with the manifests of deploy/ installed.
type cluster struct {
	client.Client
	playground *playground.Playground
	manifests  manifests
	auditLog   string
	schedulers []*playground.Component
}

// eventually waits until condition returns "". After a timeout, the test fails with the last result
// of condition.
func eventually(t *testing.T, what string, condition func(ctx context.Context) string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last := ""
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%s: %s (%v)", what, last, err)
	}
}

// startCluster starts a playground with nodes for each subtest of TestInstalled, and installs
// deploy/.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	pools := map[string]int{
		"gang": 2, "trees": 2, "plain": 1, "budget": 1, "ports": 1, "volumes": 1, "devices": 1, "retry": 1,
		"queues": 1, "tolerations": 1, "takeover": 1,
	}
	return startClusterOf(t, render(t, deployPath(t)), pools, playground.Options{})
}

// startClusterOf starts a playground and installs manifests. pools maps the name of a pool to its
// number of nodes.
func startClusterOf(t *testing.T, rendered manifests, pools map[string]int, options playground.Options) *cluster {
	t.Helper()
	out := startBare(t, pools, options)
	out.manifests = rendered
	out.install(t)
	return out
}

// startBare starts a playground and installs nothing. pools maps the name of a pool to its number
// of nodes.
func startBare(t *testing.T, pools map[string]int, options playground.Options) *cluster {
	t.Helper()
	args := []string{
		"--audit-log-mode=blocking-strict",
		// With this admission plugin, a client needs more permissions to set owner references. Some
		// clusters enable it.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		// Some API servers do not support streaming lists. Without them, informers make a list
		// request before the watch.
		"--feature-gates=WatchList=false",
	}
	resources, err := playground.ParseNodeResources("cpu=8,memory=32Gi,nvidia.com/gpu=4")
	if err != nil {
		t.Fatal(err)
	}
	var groups []playground.NodeGroup
	for pool, count := range pools {
		groups = append(groups, playground.NodeGroup{
			Prefix: pool, Count: count, Resources: resources, Labels: map[string]string{poolLabel: pool},
		})
	}
	options.NodeGroups = groups
	options.Scheduler = playground.SchedulerOptions{Path: playground.NoScheduler}
	options.ExtraArgs = map[string][]string{playground.APIServer: args}
	options.AuditPolicy = auditPolicy
	p := stage.Start(t, options)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(p.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{Client: c, playground: p, auditLog: p.AuditLog()}
}

// create creates objects. An unknown field is an error.
func (c *cluster) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		eventually(t, fmt.Sprintf("create %T %s", object, object.GetName()), func(ctx context.Context) string {
			err := c.Create(ctx, object, client.FieldValidation(metav1.FieldValidationStrict))
			if err == nil {
				return ""
			}
			// The API server may not have received a new PriorityClass yet. Try again.
			if !strings.Contains(err.Error(), "no PriorityClass with name") {
				t.Fatal(err)
			}
			return err.Error()
		})
	}
}

// install creates the rendered objects in their order. It tries a dry run before it creates the
// Deployment. It waits until the API server serves the CRDs and grants the permissions.
func (c *cluster) install(t *testing.T) {
	t.Helper()
	for _, object := range c.manifests {
		if object.GetKind() == "Deployment" {
			trial := object.DeepCopy()
			err := c.Create(t.Context(), trial, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			if err != nil {
				t.Fatalf("dry run of the Deployment: %v", err)
			}
		}
		c.create(t, object.DeepCopy())
	}
	for _, object := range c.manifests.ofKind("CustomResourceDefinition") {
		c.waitServed(t, object)
	}
	// The API server's authorizer receives bindings through watches. Wait until one permission of
	// each binding is granted.
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: "pods"},
		{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace},
		{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"},
		{Verb: "watch", Resource: "configmaps", Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"},
	} {
		eventually(t, attributes.Verb+" "+attributes.Resource, func(ctx context.Context) string {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: account, ResourceAttributes: &attributes,
			}}
			if err := c.Create(ctx, review); err != nil {
				return err.Error()
			}
			if !review.Status.Allowed {
				return "not allowed"
			}
			return ""
		})
	}
}

// waitServed waits until a CRD is established and the API server's discovery lists its kind.
func (c *cluster) waitServed(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	eventually(t, "CRD "+object.GetName(), func(ctx context.Context) string {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), &crd); err != nil {
			return err.Error()
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return c.whyNotListed(&crd)
			}
		}
		return "not established"
	})
}

func (c *cluster) whyNotListed(crd *apiextensionsv1.CustomResourceDefinition) string {
	kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		if _, err := c.RESTMapper().RESTMapping(kind, version.Name); err != nil {
			return err.Error()
		}
	}
	return ""
}

// token returns a new token of a ServiceAccount.
func (c *cluster) token(t *testing.T, namespace, name string) string {
	t.Helper()
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(t.Context(), owner, request); err != nil {
		t.Fatalf("token for %s/%s: %v", namespace, name, err)
	}
	return request.Status.Token
}

// kubeconfig writes a kubeconfig whose only credential is a token of the scheduler's
// ServiceAccount. It returns the path.
func (c *cluster) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.playground.WriteKubeconfig(path, c.token(t, namespace, name)); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeConfig writes the scheduler configuration in a ConfigMap to a file, with the path of a
// kubeconfig added. It returns the path of the file.
func writeConfig(t *testing.T, from *corev1.ConfigMap, kubeconfig string) string {
	t.Helper()
	var document map[string]any
	if err := yaml.UnmarshalStrict([]byte(from.Data[configKey]), &document); err != nil {
		t.Fatal(err)
	}
	if _, ok := document["clientConnection"]; ok {
		t.Fatal("the ConfigMap says how to connect; a Pod has its token")
	}
	document["clientConnection"] = map[string]any{"kubeconfig": kubeconfig}
	raw, err := yaml.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), configKey)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startScheduler runs the scheduler with the arguments and the configuration of the Deployment.
func (c *cluster) startScheduler(t *testing.T, component string) {
	t.Helper()
	c.startPod(t, component, &deploymentOf(t, c.manifests).Spec.Template.Spec, configMapOf(t, c.manifests), c.kubeconfig(t))
}

// startPod runs the scheduler with the arguments of a Pod. It replaces the values that are valid
// only in a Pod: the path of the configuration, the port, and the credentials.
func (c *cluster) startPod(t *testing.T, component string, pod *corev1.PodSpec, config *corev1.ConfigMap, kubeconfig string) {
	t.Helper()
	args := slices.DeleteFunc(slices.Clone(pod.Containers[0].Args), func(arg string) bool {
		return strings.HasPrefix(arg, "--config=") || strings.HasPrefix(arg, "--secure-port=")
	})
	started, err := c.playground.StartScheduler(t.Context(), component, playground.SchedulerOptions{
		Path:       filepath.Join(playgroundtest.BinDir(t, name), name),
		Config:     writeConfig(t, config, kubeconfig),
		Kubeconfig: kubeconfig,
		Args:       args,
	})
	if err != nil {
		t.Fatalf("%v\nrefused: %q", err, refused(readAudit(t, c.auditLog)))
	}
	c.schedulers = append(c.schedulers, started)
}
