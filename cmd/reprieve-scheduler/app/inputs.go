package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/decisionlog"
	"github.com/reprieve-dev/reprieve/internal/grouping"
	"github.com/reprieve-dev/reprieve/internal/inputs"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/native"
	"github.com/reprieve-dev/reprieve/internal/scheduler"
)

// withoutInputs is the default of --decision-log-inputs.
const withoutInputs = "none"

// newRecorder returns the recorder of the inputs of decisions. It returns nil if the options do not
// request one.
func newRecorder(opts *Options, process string, log *decisionlog.Log, lines io.Writer, logger klog.Logger) (*inputs.Recorder, error) {
	if opts.DecisionLog.Inputs == withoutInputs {
		return nil, nil //nolint:nilnil // That there is none is no error.
	}
	text, err := configurationText(opts)
	if err != nil {
		return nil, err
	}
	recorder := inputs.New(inputs.Options{
		Process: process, Append: log.Append,
		Whole: decisionlog.Whole{
			Version: VersionLine(version.Get().GitVersion), Configuration: text, Redacted: opts.DecisionLog.Inputs == string(inventory.Redacted),
		},
		Annotations: grouping.Annotations(),
		Unwritable: func(err error) {
			logger.Error(err, "What decisions went by cannot be written; the whole cluster is written once it can", "decisionLog", opts.DecisionLog.Path)
		},
	})
	if file, ok := lines.(*decisionlog.File); ok {
		file.BeginWith(recorder.Head)
	}
	return recorder, nil
}

// configurationText returns the text of the scheduler's configuration, as the decision log records
// it. For the default configuration, it returns "".
func configurationText(opts *Options) (string, error) {
	switch {
	case opts.ConfigFile != "":
		text, err := os.ReadFile(opts.ConfigFile)
		return string(text), err
	case opts.SchedulerName != "":
		return renamed(opts.SchedulerName)
	default:
		return "", nil
	}
}

// renamed returns the text of the default configuration, with name as the schedulerName of its
// profile.
func renamed(name string) (string, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(bytes.TrimSpace(defaultConfigYAML), &fields); err != nil {
		return "", fmt.Errorf("decode the default configuration: %w", err)
	}
	if profiles, ok := fields["profiles"].([]any); ok {
		if profile, ok := profiles[0].(map[string]any); ok {
			profile["schedulerName"] = name
		}
	}
	text, err := yaml.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("encode the default configuration: %w", err)
	}
	return string(text), nil
}

// schedulerRecorder returns the recorder as the interface that the plugins use. Without a recorder,
// it returns a nil interface: a nil *inputs.Recorder would make the interface non-nil.
func schedulerRecorder(recorder *inputs.Recorder) scheduler.Recorder {
	if recorder == nil {
		return nil
	}
	return recorder
}

// followed returns the kinds of objects that decisions depend on and that the library may watch. It
// maps the resource to an example object. Nodes are missing, because the recorder takes them from
// the snapshot of each scheduling cycle. Pods are missing, because the scheduler passes their
// changes to the recorder.
func followed() map[string]runtime.Object {
	return map[string]runtime.Object{
		inventory.PriorityClasses: &schedulingv1.PriorityClass{}, "namespaces": &corev1.Namespace{},
		"services": &corev1.Service{}, "replicationcontrollers": &corev1.ReplicationController{}, "replicasets": &appsv1.ReplicaSet{},
		"statefulsets": &appsv1.StatefulSet{}, "persistentvolumes": &corev1.PersistentVolume{}, "persistentvolumeclaims": &corev1.PersistentVolumeClaim{},
		"poddisruptionbudgets": &policyv1.PodDisruptionBudget{}, "storageclasses": &storagev1.StorageClass{}, "csinodes": &storagev1.CSINode{},
		"csidrivers": &storagev1.CSIDriver{}, "csistoragecapacities": &storagev1.CSIStorageCapacity{}, "volumeattachments": &storagev1.VolumeAttachment{},
		"deviceclasses": &resourcev1.DeviceClass{}, "resourceslices": &resourcev1.ResourceSlice{}, "resourceclaims": &resourcev1.ResourceClaim{},
		"devicetaintrules": &resourcev1.DeviceTaintRule{},
	}
}

// startRecorder connects the recorder to the informers of all objects that decisions depend on. It
// returns when the recorder has received the existing objects. The informers must run before the
// call.
func (p *parts) startRecorder(ctx context.Context, factory informers.SharedInformerFactory, shared *scheduler.Scheduler) error {
	if p.inputs == nil {
		return nil
	}
	watched := factory.WaitForCacheSync(ctx.Done())
	var told []toolscache.InformerSynced
	follow := func(resource string, informer inputs.Informer) error {
		synced, err := p.inputs.Follow(resource, informer)
		if err != nil {
			return fmt.Errorf("follow %s: %w", resource, err)
		}
		told = append(told, synced)
		return nil
	}
	for resource, example := range followed() {
		if _, ok := watched[reflect.TypeOf(example)]; !ok {
			continue
		}
		// The informer exists, so InformerFor does not create one.
		if err := follow(resource, factory.InformerFor(example, nil)); err != nil {
			return err
		}
	}
	if _, ok := watched[reflect.TypeFor[*corev1.Namespace]()]; !ok && p.follower != nil {
		// Derived groups use annotations of namespaces, even if no filter plugin reads namespaces.
		if err := follow("namespaces", p.follower.Namespaces()); err != nil {
			return err
		}
	}
	own := map[string]client.Object{
		inventory.PodGroups: &v1alpha1.PodGroup{}, inventory.Queues: &v1alpha1.Queue{}, inventory.Workloads: &v1alpha1.Workload{},
	}
	if p.composites {
		own[inventory.Composites] = &v1alpha1.CompositePodGroup{}
	}
	if p.native != nil {
		own[inventory.NativePodGroups] = native.NewObject(*p.native)
	}
	for resource, example := range own {
		informer, err := p.cache.GetInformer(ctx, example, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("follow %s: %w", resource, err)
		}
		if err := follow(resource, informer); err != nil {
			return err
		}
	}
	synced, err := p.inputs.FollowFinished(shared.Finished())
	if err != nil {
		return fmt.Errorf("follow finished pods: %w", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), append(told, synced, shared.HasSynced)...) {
		return fmt.Errorf("wait for the existing objects: %w", context.Cause(ctx))
	}
	p.inputs.Begin()
	return nil
}

// inputsChoices returns the valid values of --decision-log-inputs.
func inputsChoices() []string {
	return []string{withoutInputs, string(inventory.Redacted), string(inventory.Full)}
}

// validateInputs rejects invalid values of --decision-log-inputs.
func (o *DecisionLogOptions) validateInputs() error {
	if o.Inputs == "" {
		o.Inputs = withoutInputs
	}
	for _, choice := range inputsChoices() {
		if o.Inputs == choice {
			if choice != withoutInputs && o.Path == "" {
				return fmt.Errorf("--decision-log-inputs %s goes with --decision-log, which is not set", o.Inputs)
			}
			return nil
		}
	}
	return fmt.Errorf("--decision-log-inputs is %q; it is one of %s", o.Inputs, strings.Join(inputsChoices(), ", "))
}
