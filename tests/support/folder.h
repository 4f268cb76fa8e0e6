#ifndef PEN_TESTS_FOLDER_H
#define PEN_TESTS_FOLDER_H

/* A folder of the test's own, for cmocka_run_group_tests(). */
extern char folder[26];
int make_folder(void **state);
int remove_folder(void **state);

#endif
