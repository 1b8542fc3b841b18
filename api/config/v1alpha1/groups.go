package v1alpha1

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// KnownKinds returns the kinds of objects that Reprieve has a built-in rule for, sorted. See
// GroupArgs.Kinds.
func KnownKinds() []string {
	return []string{"Job", "JobSet", "LeaderWorkerSet", "MPIJob", "PyTorchJob", "RayCluster", "RayJob", "SparkApplication"}
}

// KnownLabels returns the schedulers whose labels and annotations Reprieve can read, sorted.
func KnownLabels() []GroupLabels {
	return []GroupLabels{LabelsCoscheduling, LabelsKAI, LabelsKoordinator, LabelsVolcano}
}

func validateGroups(at *field.Path, args *GroupArgs) field.ErrorList {
	var errs field.ErrorList
	named := make(map[string]bool)
	for i, kind := range args.Kinds {
		path := at.Child("kinds").Index(i)
		switch {
		case !slices.Contains(KnownKinds(), kind):
			errs = append(errs, field.NotSupported(path, kind, KnownKinds()))
		case named[kind]:
			errs = append(errs, field.Duplicate(path, kind))
		}
		named[kind] = true
	}
	given := make(map[GroupLabels]bool)
	for i, scheduler := range args.Labels {
		path := at.Child("labels").Index(i)
		switch {
		case !slices.Contains(KnownLabels(), scheduler):
			errs = append(errs, field.NotSupported(path, scheduler, KnownLabels()))
		case given[scheduler]:
			errs = append(errs, field.Duplicate(path, scheduler))
		}
		given[scheduler] = true
	}
	if v := *args.OptIn; v != OptInAnnotated && v != OptInAlways {
		errs = append(errs, field.NotSupported(at.Child("optIn"), v, []GroupOptIn{OptInAnnotated, OptInAlways}))
	}
	first := make(map[schema.GroupKind]int)
	for i := range args.Rules {
		rule, path := &args.Rules[i], at.Child("rules").Index(i)
		errs = append(errs, validateRule(path, rule)...)
		gv, err := schema.ParseGroupVersion(rule.APIVersion)
		if err != nil {
			continue
		}
		kind := gv.WithKind(rule.Kind).GroupKind()
		if j, ok := first[kind]; ok {
			errs = append(errs, field.Invalid(path.Child("kind"), rule.Kind, fmt.Sprintf("rules[%d] is for %s already; leave one of the two", j, kind)))
		}
		first[kind] = i
	}
	return errs
}

func validateRule(at *field.Path, rule *GroupRule) field.ErrorList {
	var errs field.ErrorList
	for name, value := range map[string]string{"apiVersion": rule.APIVersion, "kind": rule.Kind, "resource": rule.Resource} {
		if value == "" {
			errs = append(errs, field.Required(at.Child(name), ""))
		}
	}
	if gv, err := schema.ParseGroupVersion(rule.APIVersion); err != nil || rule.APIVersion != "" && gv.Version == "" {
		errs = append(errs, field.Invalid(at.Child("apiVersion"), rule.APIVersion, "must be GROUP/VERSION"))
	}
	errs = append(errs, validatePath(at.Child("suspend"), rule.Suspend)...)
	errs = append(errs, validatePath(at.Child("units"), rule.Units)...)
	errs = append(errs, validateLabel(at.Child("nameLabel"), rule.NameLabel)...)
	errs = append(errs, validateLabel(at.Child("unitLabel"), rule.UnitLabel)...)
	errs = append(errs, validateLabel(at.Child("roleLabel"), rule.RoleLabel)...)
	if len(rule.Roles) == 0 {
		errs = append(errs, field.Required(at.Child("roles"), "name at least one, with the path of its replicas"))
	}
	if len(rule.Roles) > 1 && rule.RoleLabel == "" {
		errs = append(errs, field.Required(at.Child("roleLabel"), "several roles are told apart by a label of their pods"))
	}
	named := make(map[string]bool)
	for i := range rule.Roles {
		role, path := &rule.Roles[i], at.Child("roles").Index(i)
		switch {
		case role.Name == "":
			errs = append(errs, field.Required(path.Child("name"), ""))
		case named[role.Name]:
			errs = append(errs, field.Duplicate(path.Child("name"), role.Name))
		}
		named[role.Name] = true
		if role.Replicas == "" && !role.Alone {
			errs = append(errs, field.Required(path.Child("replicas"), "the path of how many pods the role has"))
		}
		if role.Leads && !role.Alone {
			errs = append(errs, field.Invalid(path.Child("leads"), role.Leads, "requires alone: true"))
		}
		errs = append(errs, validatePath(path.Child("replicas"), role.Replicas)...)
		errs = append(errs, validatePath(path.Child("minimum"), role.Minimum)...)
	}
	return errs
}

// validatePath returns an error if a path is not a list of field names with dots between them, such
// as spec.worker.replicas. An empty path is valid.
func validatePath(at *field.Path, path string) field.ErrorList {
	if path == "" || regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`).MatchString(path) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, path, "must be names of fields with dots between them, as spec.worker.replicas")}
}

func validateLabel(at *field.Path, key string) field.ErrorList {
	var errs field.ErrorList
	if key != "" {
		for _, msg := range validation.IsQualifiedName(key) {
			errs = append(errs, field.Invalid(at, key, msg))
		}
	}
	return errs
}
