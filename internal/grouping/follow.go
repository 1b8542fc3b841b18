package grouping

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// sweepInterval is the interval between sweeps, and between checks for kinds that blocked pods
	// need.
	sweepInterval = 10 * time.Second
	// syncInterval is the interval between checks whether a kind has been read.
	syncInterval = 50 * time.Millisecond
)

// Follower watches the objects of a [Resolver]'s kinds and passes them to the Resolver. If the API
// server does not serve a kind, the Follower looks for the kind again only while a pod is blocked
// because of it.
type Follower struct {
	resolver *Resolver
	objects  dynamic.Interface
	served   discovery.ServerResourcesInterface

	mu sync.Mutex
	// read holds the followed kinds.
	read map[schema.GroupKind]*followed
	// namespaces follows namespaces.
	namespaces *followed
}

// followed is a followed kind with its informer.
type followed struct {
	informer cache.SharedIndexInformer
	told     cache.InformerSynced
	// refused is true if the last attempt to read the kind failed. Objects that were read earlier
	// stay in use.
	refused bool
}

// NewFollower returns a Follower. Call Start and Run to use it.
func NewFollower(resolver *Resolver, objects dynamic.Interface, served discovery.ServerResourcesInterface) *Follower {
	return &Follower{resolver: resolver, objects: objects, served: served, read: make(map[schema.GroupKind]*followed)}
}

// Start starts to follow the kinds that the API server serves, until ctx is done. It returns when
// the Resolver has all objects of the kinds that can be read.
func (f *Follower) Start(ctx context.Context) error {
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	var err error
	f.namespaces, err = f.follow(ctx, namespaces, reducing(&Kind{}), cache.ResourceEventHandlerFuncs{
		AddFunc:    f.setNamespace,
		UpdateFunc: func(_, obj any) { f.setNamespace(obj) },
		DeleteFunc: func(obj any) {
			if u := objectOf(obj); u != nil {
				f.resolver.DeleteNamespace(u.GetName())
			}
		},
	}, func() {}, func(err error) {
		if apierrors.IsForbidden(err) {
			klog.FromContext(ctx).Error(err, "Nothing is scheduled before the namespaces are read; grant list and watch of namespaces")
		}
	})
	if err != nil {
		return err
	}
	for _, k := range f.resolver.kinds {
		if err := f.look(ctx, k); err != nil {
			return err
		}
	}
	return wait.PollUntilContextCancel(ctx, syncInterval, true, func(context.Context) (bool, error) { return f.synced(), nil })
}

// Run sweeps the Resolver and looks for further kinds at each sweepInterval, until ctx is done.
func (f *Follower) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		f.resolver.Sweep()
		for gk, k := range f.resolver.kinds {
			if f.isRead(gk) || !k.wanted.Load() {
				continue
			}
			if err := f.look(ctx, k); err != nil {
				klog.FromContext(ctx).Error(err, "Look for a kind that pods belong to", "kind", gk)
			}
		}
		f.synced()
	}, sweepInterval)
}

// Namespaces returns the informer of namespaces. Its objects have only the fields that grouping
// reads. Call it after Start.
func (f *Follower) Namespaces() cache.SharedIndexInformer { return f.namespaces.informer }

func (f *Follower) isRead(gk schema.GroupKind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.read[gk]
	return ok
}

// look follows a kind if the API server serves it.
func (f *Follower) look(ctx context.Context, k *kind) error {
	logger := klog.FromContext(ctx)
	about := Kind{GroupVersionKind: k.GroupVersionKind, Resource: k.resource, rule: f.resolver.rules[k.GroupKind()]}
	resource := k.GroupVersion().WithResource(k.resource)
	list, err := f.served.ServerResourcesForGroupVersion(k.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ask for the resources of %s: %w", k.GroupVersion(), err)
	}
	if list == nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.resource && r.Kind == k.Kind }) {
		if f.resolver.setTrouble(k, about.NotServed()) {
			logger.Info("The API server does not serve a kind that groups are made for; it is looked for again when a pod belongs to one",
				"kind", k.Kind, "apiVersion", k.GroupVersion().String())
		}
		return nil
	}
	gk := k.GroupKind()
	trouble := func(err error) {
		why := fmt.Sprintf("list or watch %s: %v", resource.GroupResource(), err)
		if apierrors.IsForbidden(err) {
			why = fmt.Sprintf("it may not list and watch %s, which its role has to allow", resource.GroupResource())
		}
		if f.refuse(k, why) {
			logger.Info("A kind that groups are made for cannot be read; pods that belong to one wait", "kind", k.Kind, "reason", why)
		}
	}
	in, err := f.follow(ctx, resource, reducing(&about), f.resolver.handler(gk), func() { f.allow(gk) }, trouble)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read[gk] = in
	return nil
}

func (r *Resolver) handler(gk schema.GroupKind) cache.ResourceEventHandler {
	set := func(obj any) {
		if u := objectOf(obj); u != nil {
			r.Set(gk, u)
		}
	}
	remove := func(obj any) {
		if u := objectOf(obj); u != nil {
			r.Delete(u.GetUID())
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: set,
		UpdateFunc: func(before, after any) {
			// If an object is deleted and created again while the watch is interrupted, the
			// informer reports an update.
			if b, a := objectOf(before), objectOf(after); b != nil && a != nil && b.GetUID() != a.GetUID() {
				remove(b)
			}
			set(after)
		},
		DeleteFunc: remove,
	}
}

// follow starts an informer. It calls begun whenever a watch begins, and failed for each error. The
// informer's HasSynced does not show whether a kind can be read now, because it stays true after
// errors.
func (f *Follower) follow(ctx context.Context, resource schema.GroupVersionResource, transform cache.TransformFunc, handler cache.ResourceEventHandler, begun func(), failed func(error)) (*followed, error) {
	objects := f.objects.Resource(resource)
	informer := cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := objects.Watch(ctx, options)
			if err == nil {
				begun()
			}
			return w, err
		},
	}, f.objects), &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{ObjectDescription: resource.String()})
	if err := informer.SetTransform(transform); err != nil {
		return nil, fmt.Errorf("watch %s: %w", resource, err)
	}
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		failed(err)
		if !apierrors.IsForbidden(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", resource, err)
	}
	told, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", resource, err)
	}
	go informer.RunWithContext(ctx)
	return &followed{informer: informer, told: told.HasSynced}, nil
}

// refuse records why a kind cannot be read. It returns true if the previous attempt succeeded or
// there was none.
func (f *Follower) refuse(k *kind, why string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resolver.setTrouble(k, why)
	in, ok := f.read[k.GroupKind()]
	if !ok || in.refused {
		return false
	}
	in.refused = true
	return true
}

func (f *Follower) allow(gk schema.GroupKind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in, ok := f.read[gk]; ok {
		in.refused = false
	}
}

// synced reports whether all readable kinds are in sync. It clears the trouble of each kind that is
// in sync.
func (f *Follower) synced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.namespaces.told()
	for gk, in := range f.read {
		switch {
		case in.refused:
		case in.told():
			f.resolver.setTrouble(f.resolver.kinds[gk], "")
		default:
			all = false
		}
	}
	return all
}

func (f *Follower) setNamespace(obj any) {
	if u := objectOf(obj); u != nil {
		f.resolver.SetNamespace(u.GetName(), u.GetAnnotations())
	}
}

// setTrouble sets the reason why the objects of a kind are unknown; an empty reason means that they
// are known. It reports whether the reason has changed.
func (r *Resolver) setTrouble(k *kind, trouble string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	news := k.trouble != trouble
	k.trouble = trouble
	return news
}

func objectOf(obj any) *unstructured.Unstructured {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	u, _ := obj.(*unstructured.Unstructured)
	return u
}

// errNoObject is the error for a value from an informer that is not an unstructured object.
var errNoObject = errors.New("not an object")

// reducing returns a transform for informers that keeps only the fields that grouping reads. The
// other fields, such as pod templates, status and managed fields, are most of an object's size.
func reducing(k *Kind) cache.TransformFunc {
	return func(obj any) (any, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("%T: %w", obj, errNoObject)
		}
		return k.Reduce(u), nil
	}
}
