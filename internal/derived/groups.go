package derived

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	configv1alpha1 "github.com/reprieve-dev/reprieve/api/config/v1alpha1"
	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/queue"
)

// Groups determines which pods of an inventory belong together, according to a scheduler's
// configuration. It is safe for concurrent use.
type Groups struct {
	*grouping.Resolver
	queueLabels map[string]string
	unwritten   []Unwritten
}

// Unwritten returns the groups whose PodGroup the scheduler cannot write, sorted by namespace and
// name. It is empty for Groups that [Complete] did not return.
func (g *Groups) Unwritten() []Unwritten { return g.unwritten }

// New returns the Groups of an inventory. An inventory from an older snapshot file has no root
// objects, such as Jobs, so its Groups derive nothing.
func New(objects *inventory.Inventory, cfg *config.KubeSchedulerConfiguration) (*Groups, error) {
	roots, asked := objects.Roots()
	settings, err := grouping.SettingsOf(cfg.Profiles, configv1alpha1.PluginName)
	if err != nil {
		return nil, err
	}
	if !asked {
		for name, of := range settings {
			settings[name] = of.WithoutGroups()
		}
	}
	resolver, err := resolverOf(settings)
	if err != nil {
		return nil, err
	}
	resolver.Attach(unplaced{})
	out := &Groups{Resolver: resolver, queueLabels: queueLabels(cfg)}
	if !resolver.Used() {
		return out, nil
	}
	if err := setNamespaces(resolver, objects); err != nil {
		return nil, err
	}
	known := make(map[schema.GroupVersionResource]string, len(roots))
	for i := range roots {
		known[roots[i].GroupVersionResource()] = roots[i].Trouble
	}
	for _, kind := range resolver.Kinds() {
		resource := kind.GroupVersion().WithResource(kind.Resource)
		trouble, has := known[resource]
		if !has {
			trouble = fmt.Sprintf("%s were not asked for when the snapshot was taken; take it with the scheduler's configuration (--config)", kind.Resource)
		}
		resolver.SetTrouble(kind.GroupKind(), trouble)
		for _, object := range objects.Objects(inventory.RootName(resource)) {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(object.Raw); err != nil {
				return nil, fmt.Errorf("read %s %s/%s: %w", kind.Kind, object.Namespace, object.Name, err)
			}
			resolver.Set(kind.GroupKind(), u)
		}
	}
	if err := out.findOutside(objects); err != nil {
		return nil, err
	}
	return out, nil
}

// Roots returns the kinds of root objects, such as Jobs, that an inventory needs for the groups of
// a configuration.
func Roots(cfg *config.KubeSchedulerConfiguration) ([]inventory.Root, error) {
	settings, err := grouping.SettingsOf(cfg.Profiles, configv1alpha1.PluginName)
	if err != nil {
		return nil, err
	}
	resolver, err := resolverOf(settings)
	if err != nil {
		return nil, err
	}
	kinds := resolver.Kinds()
	out := make([]inventory.Root, len(kinds))
	for i := range kinds {
		out[i] = inventory.Root{
			APIVersion: kinds[i].GroupVersion().String(), Kind: kinds[i].Kind, Resource: kinds[i].Resource, Reduce: kinds[i].Reduce,
		}
	}
	return out, nil
}

func resolverOf(settings map[string]*grouping.Settings) (*grouping.Resolver, error) {
	return grouping.NewResolver(settings, func(types.NamespacedName) {})
}

func setNamespaces(resolver *grouping.Resolver, objects *inventory.Inventory) error {
	namespaces, err := inventory.Decode[corev1.Namespace](objects, "namespaces")
	if err != nil {
		return fmt.Errorf("namespaces: %w", err)
	}
	for i := range namespaces {
		resolver.SetNamespace(namespaces[i].Name, namespaces[i].Annotations)
	}
	return nil
}

// queueLabels maps the scheduler name of each profile to the pod label that names the queue of the
// profile's pods. It omits profiles with invalid arguments.
func queueLabels(cfg *config.KubeSchedulerConfiguration) map[string]string {
	out := make(map[string]string)
	for i := range cfg.Profiles {
		for _, plugin := range cfg.Profiles[i].PluginConfig {
			if plugin.Name != configv1alpha1.PluginName {
				continue
			}
			if args, err := configv1alpha1.Decode(plugin.Args); err == nil && args.QueueLabelKey != nil {
				out[cfg.Profiles[i].SchedulerName] = *args.QueueLabelKey
			}
		}
	}
	return out
}

// queueNamedBy returns the queue that the pod's own labels name.
func (g *Groups) queueNamedBy(pod *corev1.Pod) string {
	label, ok := g.queueLabels[pod.Spec.SchedulerName]
	if !ok {
		label = v1alpha1.LabelQueue
	}
	return queue.NamedBy(pod, label, g)
}

// unplaced implements grouping.Pods without pods. It is for a Resolver whose objects never change,
// so the Resolver never looks for pods to update.
type unplaced struct{}

// Anchored implements grouping.Pods.
func (unplaced) Anchored(string) []*corev1.Pod { return nil }

// MembershipChanged implements grouping.Pods.
func (unplaced) MembershipChanged(*corev1.Pod, types.NamespacedName, bool) {}
