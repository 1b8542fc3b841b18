package app

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/whatif"
)

// rightFor returns the permission that a user needs to apply a remedy, for remedies that change
// cluster-scoped objects. For other remedies, it returns nil.
func rightFor(kind string) *authorizationv1.ResourceAttributes {
	switch kind {
	case whatif.Uncordon:
		return &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"}
	case whatif.AddNodes:
		return &authorizationv1.ResourceAttributes{Verb: "create", Resource: "nodes"}
	case whatif.RaiseLimit, whatif.RaiseQuota:
		return &authorizationv1.ResourceAttributes{Verb: "patch", Group: v1alpha1.GroupName, Resource: "queues"}
	default:
		return nil
	}
}

// reviewRemedies sorts the remedies: first the remedies that the caller may apply. For each remedy
// that changes cluster-scoped objects, it asks the API server by a SelfSubjectAccessReview, as
// "kubectl auth can-i" does; this changes nothing. If the review fails, or with a snapshot, such a
// remedy counts as one for administrators.
func (a *asking) reviewRemedies(ctx context.Context, remedies []whatif.Remedy) {
	if a.snapshot == "" {
		a.reviewAtServer(ctx, remedies)
	}
	slices.SortStableFunc(remedies, func(x, y whatif.Remedy) int {
		switch {
		case x.ByAdministrators == y.ByAdministrators:
			return 0
		case y.ByAdministrators:
			return -1
		default:
			return 1
		}
	})
}

func (a *asking) reviewAtServer(ctx context.Context, remedies []whatif.Remedy) {
	config, err := a.kube.ToRESTConfig()
	if err != nil {
		return
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return
	}
	allowed := make(map[authorizationv1.ResourceAttributes]bool)
	for i := range remedies {
		right := rightFor(remedies[i].Kind)
		if right == nil {
			continue
		}
		may, known := allowed[*right]
		if !known {
			review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: right},
			}, metav1.CreateOptions{})
			may = err == nil && review.Status.Allowed
			allowed[*right] = may
		}
		remedies[i].ByAdministrators = !may
	}
}
